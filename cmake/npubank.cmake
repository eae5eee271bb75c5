# What every target is built with, and short ways to declare libraries and tests.

# Every include begins with npubank/, so that nobody's own "bank/bank.h" is mistaken for one of ours: the source
# folder goes by that name in the build folder, and what flatc generates lies beside it in the same shape.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/npubank SYMBOLIC)
set(NPUBANK_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

# What whoever uses a library is given: where its headers are, and that they are C++20.
add_library(npubank_headers INTERFACE)
target_include_directories(npubank_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<BUILD_INTERFACE:${NPUBANK_GENERATED_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(npubank_headers INTERFACE cxx_std_20)
set_target_properties(npubank_headers PROPERTIES EXPORT_NAME headers)
add_library(npubank::headers ALIAS npubank_headers)
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${NPUBANK_GENERATED_DIR}/npubank/version.h @ONLY)

# What the project's own sources are built with, and nobody else's: warnings and sanitizers.
add_library(npubank_options INTERFACE)
target_link_libraries(npubank_options INTERFACE npubank_headers)
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

# npubank_library(NAME [INTERNAL] SOURCES a.cc ... SCHEMAS x.fbs ... DEPS target ...): a static library, which others
# link as npubank::NAME, without its npubank_. Those of the rooms are installed, but for INTERNAL ones.
function(npubank_library name)
  cmake_parse_arguments(ARG "INTERNAL" "" "SOURCES;SCHEMAS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC npubank_headers ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:npubank_options>)
  npubank_schemas(${name} ${ARG_SCHEMAS})
  string(REGEX REPLACE "^npubank_" "" short ${name})
  add_library(npubank::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT ARG_INTERNAL AND NOT folder MATCHES "^(tools|tests)")
    set_property(GLOBAL APPEND PROPERTY NPUBANK_INSTALLED ${name})
  endif()
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

# npubank_benchmark(NAME SOURCES a_benchmark.cc DEPS ...): built with the tests, run by hand.
function(npubank_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE npubank_options ${ARG_DEPS} benchmark::benchmark)
endfunction()
