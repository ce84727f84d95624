// The extensions of the PJRT C ABI that Switchtower uses: XLA FFI and XlaTransform.
//
// Place:    pjrt; beside abi.h, with the same rules. No plug-in must have them: Plugin says which are there.
#pragma once

#include "pjrt/abi.h"

namespace switchtower::pjrt::abi {

// XLA FFI: custom calls answered by functions of the process ---------------------------------------------------
struct PJRT_FFI_Type_Info {
  void (*deleter)(void* object);
  void (*serialize)();
  void (*deserialize)();
};
struct PJRT_FFI_Type_Register_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;
  size_t type_name_size;
  int64_t type_id;  // in: 0, to have one assigned; out
  PJRT_FFI_Type_Info* type_info;
};
struct PJRT_FFI_UserData {
  int64_t type_id;
  void* data;
};
struct PJRT_FFI_UserData_Add_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  PJRT_FFI_UserData user_data;
};
struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;  // bit 0: may be captured in a command buffer
};
struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*type_register)(PJRT_FFI_Type_Register_Args* args);
  PJRT_Error* (*user_data_add)(PJRT_FFI_UserData_Add_Args* args);
  PJRT_Error* (*register_handler)(PJRT_FFI_Register_Handler_Args* args);
};

// XlaTransform: a function that sees (and may replace) a module inside XLA's pipeline --------------------------
inline constexpr int64_t kXlaTransformVersion = 1;

struct PJRT_XlaTransform_string {
  const char* data;
  size_t size;
};
struct PJRT_XlaTransform_version_and_error {
  int64_t api_version;
  void* data;                          // out; handed to cleanup_fn
  void (*cleanup_fn)(void* data);      // out; called when the plug-in has read what was returned
  bool has_error;                      // out
  PJRT_Error_Code code;                // out
  PJRT_XlaTransform_string error_msg;  // out
};
struct PJRT_XlaTransform_Args {
  size_t struct_size;
  PJRT_XlaTransform_version_and_error header;
  PJRT_XlaTransform_string hlo_module;              // serialised HloModuleProto
  PJRT_XlaTransform_string transformed_hlo_module;  // out; read if changed
  bool changed;                                     // out
};
// The plug-in keeps the pointer and calls dtor when it forgets the transform.
struct PJRT_XlaTransform_Callbacks {
  int64_t version;
  void (*dtor)(PJRT_XlaTransform_Callbacks* callbacks);
  void (*transform_hlo_module)(PJRT_XlaTransform_Callbacks* callbacks, PJRT_XlaTransform_Args* args);
};
struct PJRT_Register_Xla_Transform_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int stage;  // 0: before the scheduler, 1: after it
  PJRT_XlaTransform_Callbacks* callbacks;
};
struct PJRT_Xla_Transform_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*register_xla_transform)(PJRT_Register_Xla_Transform_Args* args);
  void (*clear_xla_transform)();  // not called: transforms stay for the life of the process
};

}  // namespace switchtower::pjrt::abi
