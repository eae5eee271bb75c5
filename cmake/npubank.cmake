# What every target of the project is built with, and short ways to declare libraries and tests.

# Every include begins with npubank/, so that nobody's own "bank/bank.h" is mistaken for one of ours: the source
# folder goes by that name in the build folder, and what flatc generates lies beside it in the same shape.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/npubank SYMBOLIC)
set(NPUBANK_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

add_library(npubank_options INTERFACE)
target_include_directories(npubank_options INTERFACE ${PROJECT_BINARY_DIR}/include ${NPUBANK_GENERATED_DIR})
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

# npubank_schemas(TARGET x.fbs ...): what flatc makes of them is included as npubank/<its folder>/x_generated.h.
function(npubank_schemas name)
  foreach(schema ${ARGN})
    get_filename_component(stem ${schema} NAME_WE)
    get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR}/${schema} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    set(generated ${NPUBANK_GENERATED_DIR}/npubank/${folder}/${stem}_generated.h)
    add_custom_command(OUTPUT ${generated}
      COMMAND flatbuffers::flatc --cpp --scoped-enums --cpp-std c++17 -o ${NPUBANK_GENERATED_DIR}/npubank/${folder}
              ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${schema})
    target_sources(${name} PRIVATE ${generated})
  endforeach()
endfunction()

# npubank_library(NAME SOURCES a.cc ... SCHEMAS x.fbs ... DEPS target ...): a static library.
function(npubank_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SCHEMAS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC npubank_options ${ARG_DEPS})
  npubank_schemas(${name} ${ARG_SCHEMAS})
endfunction()

# npubank_test(NAME SOURCES a_test.cc ... [SCHEMAS x.fbs ...] DEPS target ... [LABELS x] [ENVIRONMENT A=B ...])
# One GoogleTest program; each of its tests is a ctest test of its own.
function(npubank_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SCHEMAS;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  npubank_schemas(${name} ${ARG_SCHEMAS})
  target_link_libraries(${name} PRIVATE npubank_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE NPUBANK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${NPUBANK_TEST_SECONDS} LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# npubank_benchmark(NAME SOURCES a_benchmark.cc DEPS ...): built with everything, run by hand.
function(npubank_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE npubank_options ${ARG_DEPS} benchmark::benchmark)
endfunction()
