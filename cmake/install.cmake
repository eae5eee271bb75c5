# What is installed, and the Debian packages made of it: libraries, headers and what finds them ("dev"), and the
# programs with the software NPU ("tools").

get_property(libraries GLOBAL PROPERTY NPUBANK_INSTALLED)

# All of it in C++, for who does not choose.
add_library(npubank_all INTERFACE)
target_link_libraries(npubank_all INTERFACE ${libraries})
set_target_properties(npubank_all PROPERTIES EXPORT_NAME npubank)
add_library(npubank::npubank ALIAS npubank_all)

if(NOT NPUBANK_INSTALL)
  return()
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/npubank)
install(TARGETS ${libraries} npubank_all npubank_headers npubank_c EXPORT npubank-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev NAMELINK_COMPONENT dev)
install(DIRECTORY runtime/python/npubank DESTINATION ${CMAKE_INSTALL_LIBDIR}/python3/dist-packages COMPONENT dev
  FILES_MATCHING PATTERN "*.py")
install(EXPORT npubank-targets NAMESPACE npubank:: DESTINATION ${package_folder} COMPONENT dev)
install(DIRECTORY lazy_tensor bank compiler_stub runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/npubank COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE PATTERN software_npu EXCLUDE PATTERN python EXCLUDE)
install(FILES ${NPUBANK_GENERATED_DIR}/npubank/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/npubank COMPONENT dev)

if(NPUBANK_TESTING)
  install(TARGETS npubank_testing EXPORT npubank-testing-targets)
  install(EXPORT npubank-testing-targets NAMESPACE npubank:: DESTINATION ${package_folder} COMPONENT dev)
endif()
if(NPUBANK_TOOLS)
  install(TARGETS bank-run npubankd npubank-keeper bank-inspect bank-export make-checkpoint RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(TARGETS ze_software_npu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/npubank COMPONENT tools)
endif()

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/npubank-config.cmake.in ${PROJECT_BINARY_DIR}/npubank-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/npubank-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/npubank-config.cmake ${PROJECT_BINARY_DIR}/npubank-config-version.cmake
  cmake/FindLevelZero.cmake cmake/FindXxhash.cmake DESTINATION ${package_folder} COMPONENT dev)

# pkg-config: Abseil's packages are named after its targets; the rest by hand.
set(requires "")
foreach(library ${libraries})
  get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
  string(REGEX MATCHALL "absl::[a-z0-9_]+" found "${links}")
  list(APPEND requires ${found})
endforeach()
list(REMOVE_DUPLICATES requires)
list(TRANSFORM requires REPLACE "absl::" "absl_")
list(APPEND requires flatbuffers libhwy libxxhash)
list(JOIN requires ", " NPUBANK_REQUIRES)
list(TRANSFORM libraries PREPEND "-l" OUTPUT_VARIABLE NPUBANK_LIBRARIES)
list(JOIN NPUBANK_LIBRARIES " " NPUBANK_LIBRARIES)
file(RELATIVE_PATH NPUBANK_PREFIX_FROM_PKGCONFIG /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/npubank.pc.in ${PROJECT_BINARY_DIR}/npubank.pc @ONLY)
configure_file(cmake/npubank-c.pc.in ${PROJECT_BINARY_DIR}/npubank-c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/npubank.pc ${PROJECT_BINARY_DIR}/npubank-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the authors of npubank <npubank@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL dev tools)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnpubank-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libabsl-dev, libflatbuffers-dev, libhwy-dev, libxxhash-dev, libze-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "npubank-tools, libgtest-dev, python3-numpy")  # a device; npubank::testing; leases as arrays
set(CPACK_COMPONENT_DEV_DESCRIPTION "npubank's libraries, headers, CMake package and pkg-config files")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME npubank-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "bank-run, npubankd, bank-inspect, bank-export, make-checkpoint, and a Level Zero driver in software")
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()
