# What every target of the project is built with, and short ways to declare libraries and tests.

add_library(npubank_options INTERFACE)
target_include_directories(npubank_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(npubank_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(NPUBANK_WERROR)
  target_compile_options(npubank_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(npubank_options INTERFACE -Wthread-safety)
endif()
if(NPUBANK_SANITIZE)
  target_compile_options(npubank_options INTERFACE -fsanitize=${NPUBANK_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(npubank_options INTERFACE -fsanitize=${NPUBANK_SANITIZE})
endif()

# npubank_library(NAME SOURCES a.cc ... SCHEMAS x.fbs ... DEPS target ...)
# A static library; each schema becomes <build>/<folder>/x_generated.h, included by that path.
function(npubank_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SCHEMAS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC npubank_options ${ARG_DEPS})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(schema ${ARG_SCHEMAS})
    get_filename_component(stem ${schema} NAME_WE)
    set(generated ${PROJECT_BINARY_DIR}/${folder}/${stem}_generated.h)
    add_custom_command(OUTPUT ${generated}
      COMMAND flatbuffers::flatc --cpp --scoped-enums --cpp-std c++17 -o ${PROJECT_BINARY_DIR}/${folder}
              ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${schema})
    target_sources(${name} PRIVATE ${generated})
  endforeach()
endfunction()

# npubank_test(NAME SOURCES a_test.cc ... DEPS target ... [LABELS x] [ENVIRONMENT A=B ...])
# One GoogleTest program; each of its tests is a ctest test of its own.
function(npubank_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE npubank_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE NPUBANK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# npubank_benchmark(NAME SOURCES a_benchmark.cc DEPS ...): built with everything, run by hand.
function(npubank_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE npubank_options ${ARG_DEPS} benchmark::benchmark)
endfunction()
