# The Level Zero loader and its headers as LevelZero::LevelZero.
find_path(LEVEL_ZERO_INCLUDE_DIR level_zero/ze_api.h)
find_library(LEVEL_ZERO_LOADER ze_loader)
mark_as_advanced(LEVEL_ZERO_INCLUDE_DIR LEVEL_ZERO_LOADER)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LevelZero REQUIRED_VARS LEVEL_ZERO_LOADER LEVEL_ZERO_INCLUDE_DIR)
if(LevelZero_FOUND AND NOT TARGET LevelZero::LevelZero)
  add_library(LevelZero::LevelZero UNKNOWN IMPORTED GLOBAL)
  set_target_properties(LevelZero::LevelZero PROPERTIES IMPORTED_LOCATION ${LEVEL_ZERO_LOADER}
    INTERFACE_INCLUDE_DIRECTORIES ${LEVEL_ZERO_INCLUDE_DIR})
endif()
