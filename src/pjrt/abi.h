// The part of the PJRT C ABI that Switchtower uses: structs, numbers and the order of the function table.
//
// Place:    pjrt; included by this folder's sources only. Public headers name the opaque types.
// Facts:    names, order and types are the interface that plug-ins are built for (C API 0.72 and later; fields
//           are up to 0.115). Everything lies in a namespace, so that it can stand beside the original header
//           in abi_test.cc, which compares each offset.
// Rules:    `struct_size` is set by whoever makes the struct. Newer versions only append fields: we declare the
//           newest ones, since a plug-in refuses a struct that is smaller than the one it knows; an older one
//           leaves what it doesn't know untouched, hence zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchtower::pjrt::abi {

inline constexpr int kMajorVersion = 0;
// The first minor version that has every field we can't do without: overridden compile options (0.71), peak
// memory (0.72).
inline constexpr int kMinMinorVersion = 72;

// Opaque objects of the plug-in.
struct PJRT_Error;
struct PJRT_Event;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Memory;
struct PJRT_DeviceDescription;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;
struct PJRT_SerializedExecutable;
struct PJRT_Buffer;
struct PJRT_ExecuteContext;

// Extensions form a list that hangs on the table. The numbers are fixed; only those we look for.
enum PJRT_Extension_Type : int {
  PJRT_Extension_Type_Layouts = 4,
  PJRT_Extension_Type_FFI = 5,
  PJRT_Extension_Type_MemoryDescriptions = 6,
  PJRT_Extension_Type_CrossHostTransfers = 12,
  PJRT_Extension_Type_Shardings = 19,
  PJRT_Extension_Type_XlaTransform = 24,
};

struct PJRT_Extension_Base {
  size_t struct_size;
  PJRT_Extension_Type type;
  PJRT_Extension_Base* next;
};

struct PJRT_Api_Version {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  int major_version;
  int minor_version;
};

// Errors: a null PJRT_Error* is success; the caller destroys the others. Codes are those of absl::StatusCode.
using PJRT_Error_Code = int;

struct PJRT_Error_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Error* error;
};
struct PJRT_Error_Message_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;
  const char* message;  // out; lives as long as the error
  size_t message_size;  // out
};
struct PJRT_Error_GetCode_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;
  PJRT_Error_Code code;  // out
};
// How a callback of ours makes an error of the plug-in's.
using PJRT_CallbackError = PJRT_Error* (*)(PJRT_Error_Code code, const char* message, size_t message_size);

enum PJRT_NamedValue_Type : int {
  PJRT_NamedValue_kString = 0,
  PJRT_NamedValue_kInt64 = 1,
  PJRT_NamedValue_kInt64List = 2,
  PJRT_NamedValue_kFloat = 3,
  PJRT_NamedValue_kBool = 4,
};
struct PJRT_NamedValue {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // characters or list elements; 1 for the others
};

struct PJRT_Plugin_Initialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
};
struct PJRT_Plugin_Attributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_NamedValue* attributes;  // out
  size_t num_attributes;              // out
};

// Events ---------------------------------------------------------------------------------------------------
struct PJRT_Event_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;
};
struct PJRT_Event_IsReady_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;
  bool is_ready;  // out
};
struct PJRT_Event_Await_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;
};
// The callback owns the error.
using PJRT_Event_OnReadyCallback = void (*)(PJRT_Error* error, void* user_arg);
struct PJRT_Event_OnReady_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
};

// Client ---------------------------------------------------------------------------------------------------
struct PJRT_KeyValueGetCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;
  size_t key_size;
  int timeout_in_ms;
  PJRT_CallbackError* callback_error;
  void* user_arg;
  char* value;                                  // out
  size_t value_size;                            // out
  void (*value_deleter_callback)(char* value);  // out
};
struct PJRT_KeyValueTryGetCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;
  size_t key_size;
  PJRT_CallbackError* callback_error;
  void* user_arg;
  char* value;                                  // out
  size_t value_size;                            // out
  void (*value_deleter_callback)(char* value);  // out
};
struct PJRT_KeyValuePutCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  PJRT_CallbackError* callback_error;
  void* user_arg;
};
struct PJRT_Client_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_Error* (*kv_get_callback)(PJRT_KeyValueGetCallback_Args* args);
  void* kv_get_user_arg;
  PJRT_Error* (*kv_put_callback)(PJRT_KeyValuePutCallback_Args* args);
  void* kv_put_user_arg;
  PJRT_Client* client;  // out
  PJRT_Error* (*kv_try_get_callback)(PJRT_KeyValueTryGetCallback_Args* args);
  void* kv_try_get_user_arg;
};
struct PJRT_Client_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
};
struct PJRT_Client_PlatformName_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const char* platform_name;  // out
  size_t platform_name_size;  // out
};
struct PJRT_Client_PlatformVersion_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const char* platform_version;  // out
  size_t platform_version_size;  // out
};
struct PJRT_Client_AddressableDevices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  PJRT_Device* const* addressable_devices;  // out
  size_t num_addressable_devices;           // out
};
struct PJRT_Client_AddressableMemories_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  PJRT_Memory* const* addressable_memories;  // out
  size_t num_addressable_memories;           // out
};
struct PJRT_Program {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};
struct PJRT_Client_Compile_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;  // out
};

// Element types, numbered otherwise than XLA's PrimitiveType.
enum PJRT_Buffer_Type : int {
  PJRT_Buffer_Type_INVALID = 0,
  PJRT_Buffer_Type_PRED = 1,
  PJRT_Buffer_Type_S8 = 2,
  PJRT_Buffer_Type_S16 = 3,
  PJRT_Buffer_Type_S32 = 4,
  PJRT_Buffer_Type_S64 = 5,
  PJRT_Buffer_Type_U8 = 6,
  PJRT_Buffer_Type_U16 = 7,
  PJRT_Buffer_Type_U32 = 8,
  PJRT_Buffer_Type_U64 = 9,
  PJRT_Buffer_Type_F16 = 10,
  PJRT_Buffer_Type_F32 = 11,
  PJRT_Buffer_Type_F64 = 12,
  PJRT_Buffer_Type_BF16 = 13,
  PJRT_Buffer_Type_C64 = 14,
  PJRT_Buffer_Type_C128 = 15,
  PJRT_Buffer_Type_F8E5M2 = 16,
  PJRT_Buffer_Type_F8E4M3FN = 17,
  PJRT_Buffer_Type_F8E4M3B11FNUZ = 18,
  PJRT_Buffer_Type_F8E5M2FNUZ = 19,
  PJRT_Buffer_Type_F8E4M3FNUZ = 20,
  PJRT_Buffer_Type_S4 = 21,
  PJRT_Buffer_Type_U4 = 22,
  PJRT_Buffer_Type_TOKEN = 23,
  PJRT_Buffer_Type_S2 = 24,
  PJRT_Buffer_Type_U2 = 25,
  PJRT_Buffer_Type_F8E4M3 = 26,
  PJRT_Buffer_Type_F8E3M4 = 27,
  PJRT_Buffer_Type_F8E8M0FNU = 28,
  PJRT_Buffer_Type_F4E2M1FN = 29,
  PJRT_Buffer_Type_S1 = 30,  // S1 and U1 came after 0.81
  PJRT_Buffer_Type_U1 = 31,
};

enum PJRT_Buffer_MemoryLayout_Type : int {
  PJRT_Buffer_MemoryLayout_Type_Tiled = 0,
  PJRT_Buffer_MemoryLayout_Type_Strides = 1,
};
struct PJRT_Buffer_MemoryLayout_Tiled {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;      // the tiles' dimensions, one tile after the other
  const size_t* tile_dim_sizes;  // dimensions of each tile
  size_t num_tiles;
};
struct PJRT_Buffer_MemoryLayout_Strides {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const int64_t* byte_strides;
  size_t num_byte_strides;
};
struct PJRT_Buffer_MemoryLayout {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
};
struct PJRT_Client_CreateUninitializedBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Device* device;
  PJRT_Memory* memory;  // takes precedence over device
  PJRT_Buffer* buffer;  // out
};
struct PJRT_Client_BufferFromHostBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const void* data;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;  // null: dense, row major
  size_t num_byte_strides;
  int host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;  // takes precedence over device
  PJRT_Buffer_MemoryLayout* device_layout;
  PJRT_Event* done_with_host_buffer;  // out
  PJRT_Buffer* buffer;                // out
};

// Devices and memories -------------------------------------------------------------------------------------
struct PJRT_DeviceDescription_Id_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  int id;  // out
};
struct PJRT_DeviceDescription_ProcessIndex_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  int process_index;  // out
};
struct PJRT_DeviceDescription_Attributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  size_t num_attributes;              // out
  const PJRT_NamedValue* attributes;  // out
};
struct PJRT_DeviceDescription_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  const char* device_kind;  // out
  size_t device_kind_size;  // out
};
struct PJRT_DeviceDescription_DebugString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  const char* debug_string;  // out
  size_t debug_string_size;  // out
};
struct PJRT_DeviceDescription_ToString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  const char* to_string;  // out
  size_t to_string_size;  // out
};
struct PJRT_Device_GetDescription_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  PJRT_DeviceDescription* device_description;  // out
};
struct PJRT_Device_LocalHardwareId_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  int local_hardware_id;  // out
};
struct PJRT_Device_AddressableMemories_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  PJRT_Memory* const* memories;  // out
  size_t num_memories;           // out
};
struct PJRT_Device_DefaultMemory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  PJRT_Memory* memory;  // out
};
struct PJRT_Device_MemoryStats_Args {  // every field behind `device` is out
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;  // after 0.81
  bool peak_allocated_bytes_is_set;
};
struct PJRT_Memory_Id_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;
  int id;  // out
};
struct PJRT_Memory_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;
  const char* kind;  // out
  size_t kind_size;  // out
};
struct PJRT_Memory_DebugString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;
  const char* debug_string;  // out
  size_t debug_string_size;  // out
};

// Executables ----------------------------------------------------------------------------------------------
struct PJRT_ExecuteContext_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;  // out
};
struct PJRT_ExecuteContext_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
};
struct PJRT_Executable_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
};
struct PJRT_LoadedExecutable_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;
};
struct PJRT_LoadedExecutable_GetExecutable_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable;  // out; the caller destroys it
};
struct PJRT_Executable_Name_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  const char* executable_name;  // out
  size_t executable_name_size;  // out
};
struct PJRT_Executable_NumReplicas_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_replicas;  // out
};
struct PJRT_Executable_NumPartitions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_partitions;  // out
};
struct PJRT_Executable_NumOutputs_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;  // out
};
struct PJRT_Executable_OptimizedProgram_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  PJRT_Program* program;  // first call with null code: sizes; second call fills code
};
struct PJRT_Executable_Fingerprint_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  const char* executable_fingerprint;  // out
  size_t executable_fingerprint_size;  // out
};
struct PJRT_Executable_GetCostAnalysis_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_properties;              // out
  const PJRT_NamedValue* properties;  // out
};
struct PJRT_Executable_GetCompiledMemoryStats_Args {  // every field behind `executable` is out
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;  // this and the rest: after 0.81
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
};
struct PJRT_Executable_OutputElementTypes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  PJRT_Buffer_Type* output_types;  // out
  size_t num_output_types;         // out
};
struct PJRT_Executable_OutputDimensions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  const int64_t* dims;      // out; of all outputs, one after the other
  const size_t* dim_sizes;  // out; rank of each output
};
struct PJRT_Executable_OutputMemoryKinds_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* memory_kinds;  // out
  const size_t* memory_kind_sizes;  // out
};
struct PJRT_Executable_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Executable* executable;
  const char* serialized_bytes;                                                  // out
  size_t serialized_bytes_size;                                                  // out
  PJRT_SerializedExecutable* serialized_executable;                              // out; owns the bytes
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable* executable);  // out
};
struct PJRT_Executable_DeserializeAndLoad_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable;  // out
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  void* load_options;  // after 0.81; null: none
};
struct PJRT_ExecuteOptions {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  void** send_callbacks;
  void** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
  void* multi_slice_config;  // this and the rest: after 0.81
  bool use_major_to_minor_data_layout_for_callbacks;
  void* hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
};
struct PJRT_LoadedExecutable_Execute_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;
  PJRT_ExecuteOptions* options;
  PJRT_Buffer* const* const* argument_lists;  // [num_devices][num_args]
  size_t num_devices;
  size_t num_args;
  PJRT_Buffer** const* output_lists;    // in: room for [num_devices][outputs]
  PJRT_Event** device_complete_events;  // in: room for num_devices, or null
  PJRT_Device* execute_device;          // one device only; required for portable executables
};

// Buffers --------------------------------------------------------------------------------------------------
struct PJRT_Buffer_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_ElementType_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type type;  // out
};
struct PJRT_Buffer_Dimensions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  const int64_t* dims;  // out
  size_t num_dims;      // out
};
struct PJRT_Buffer_GetMemoryLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Buffer_MemoryLayout layout;  // out
};
struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;  // out
};
struct PJRT_Buffer_Device_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Device* device;  // out
};
struct PJRT_Buffer_Memory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;  // out
};
struct PJRT_Buffer_Delete_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_IsDeleted_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  bool is_deleted;  // out
};
struct PJRT_Buffer_CopyToDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;  // out
};
struct PJRT_Buffer_CopyToMemory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Memory* dst_memory;
  PJRT_Buffer* dst_buffer;  // out
};
struct PJRT_Buffer_ToHostBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* src;
  PJRT_Buffer_MemoryLayout* host_layout;  // null: the device's
  void* dst;                              // null: only tell dst_size
  size_t dst_size;
  PJRT_Event* event;  // out
};
struct PJRT_Buffer_IsOnCpu_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  bool is_on_cpu;  // out
};
struct PJRT_Buffer_ReadyEvent_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Event* event;  // out
};
struct PJRT_Buffer_UnsafePointer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;  // out
};

// The table of functions, in its fixed order. Entries that Switchtower doesn't call only hold their place.
using Unused = void (*)();
#define ST_PJRT_FUNCTION_(name) PJRT_Error* (*name)(name##_Args * args)

struct PJRT_Api {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Api_Version pjrt_api_version;

  void (*PJRT_Error_Destroy)(PJRT_Error_Destroy_Args* args);
  void (*PJRT_Error_Message)(PJRT_Error_Message_Args* args);
  ST_PJRT_FUNCTION_(PJRT_Error_GetCode);
  ST_PJRT_FUNCTION_(PJRT_Plugin_Initialize);
  ST_PJRT_FUNCTION_(PJRT_Plugin_Attributes);
  ST_PJRT_FUNCTION_(PJRT_Event_Destroy);
  ST_PJRT_FUNCTION_(PJRT_Event_IsReady);
  Unused PJRT_Event_Error;
  ST_PJRT_FUNCTION_(PJRT_Event_Await);
  ST_PJRT_FUNCTION_(PJRT_Event_OnReady);
  ST_PJRT_FUNCTION_(PJRT_Client_Create);
  ST_PJRT_FUNCTION_(PJRT_Client_Destroy);
  ST_PJRT_FUNCTION_(PJRT_Client_PlatformName);
  Unused PJRT_Client_ProcessIndex;
  ST_PJRT_FUNCTION_(PJRT_Client_PlatformVersion);
  Unused PJRT_Client_Devices;
  ST_PJRT_FUNCTION_(PJRT_Client_AddressableDevices);
  Unused PJRT_Client_LookupDevice;
  Unused PJRT_Client_LookupAddressableDevice;
  ST_PJRT_FUNCTION_(PJRT_Client_AddressableMemories);
  ST_PJRT_FUNCTION_(PJRT_Client_Compile);
  Unused PJRT_Client_DefaultDeviceAssignment;
  ST_PJRT_FUNCTION_(PJRT_Client_BufferFromHostBuffer);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_Id);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_ProcessIndex);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_Attributes);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_Kind);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_DebugString);
  ST_PJRT_FUNCTION_(PJRT_DeviceDescription_ToString);
  ST_PJRT_FUNCTION_(PJRT_Device_GetDescription);
  Unused PJRT_Device_IsAddressable;
  ST_PJRT_FUNCTION_(PJRT_Device_LocalHardwareId);
  ST_PJRT_FUNCTION_(PJRT_Device_AddressableMemories);
  ST_PJRT_FUNCTION_(PJRT_Device_DefaultMemory);
  ST_PJRT_FUNCTION_(PJRT_Device_MemoryStats);
  ST_PJRT_FUNCTION_(PJRT_Memory_Id);
  ST_PJRT_FUNCTION_(PJRT_Memory_Kind);
  ST_PJRT_FUNCTION_(PJRT_Memory_DebugString);
  Unused PJRT_Memory_ToString;
  Unused PJRT_Memory_AddressableByDevices;
  ST_PJRT_FUNCTION_(PJRT_Executable_Destroy);
  ST_PJRT_FUNCTION_(PJRT_Executable_Name);
  ST_PJRT_FUNCTION_(PJRT_Executable_NumReplicas);
  ST_PJRT_FUNCTION_(PJRT_Executable_NumPartitions);
  ST_PJRT_FUNCTION_(PJRT_Executable_NumOutputs);
  Unused PJRT_Executable_SizeOfGeneratedCodeInBytes;
  ST_PJRT_FUNCTION_(PJRT_Executable_GetCostAnalysis);
  ST_PJRT_FUNCTION_(PJRT_Executable_OutputMemoryKinds);
  ST_PJRT_FUNCTION_(PJRT_Executable_OptimizedProgram);
  ST_PJRT_FUNCTION_(PJRT_Executable_Serialize);
  ST_PJRT_FUNCTION_(PJRT_LoadedExecutable_Destroy);
  ST_PJRT_FUNCTION_(PJRT_LoadedExecutable_GetExecutable);
  Unused PJRT_LoadedExecutable_AddressableDevices;
  Unused PJRT_LoadedExecutable_Delete;
  Unused PJRT_LoadedExecutable_IsDeleted;
  ST_PJRT_FUNCTION_(PJRT_LoadedExecutable_Execute);
  ST_PJRT_FUNCTION_(PJRT_Executable_DeserializeAndLoad);
  Unused PJRT_LoadedExecutable_Fingerprint;
  ST_PJRT_FUNCTION_(PJRT_Buffer_Destroy);
  ST_PJRT_FUNCTION_(PJRT_Buffer_ElementType);
  ST_PJRT_FUNCTION_(PJRT_Buffer_Dimensions);
  Unused PJRT_Buffer_UnpaddedDimensions;
  Unused PJRT_Buffer_DynamicDimensionIndices;
  ST_PJRT_FUNCTION_(PJRT_Buffer_GetMemoryLayout);
  ST_PJRT_FUNCTION_(PJRT_Buffer_OnDeviceSizeInBytes);
  ST_PJRT_FUNCTION_(PJRT_Buffer_Device);
  ST_PJRT_FUNCTION_(PJRT_Buffer_Memory);
  ST_PJRT_FUNCTION_(PJRT_Buffer_Delete);
  ST_PJRT_FUNCTION_(PJRT_Buffer_IsDeleted);
  ST_PJRT_FUNCTION_(PJRT_Buffer_CopyToDevice);
  ST_PJRT_FUNCTION_(PJRT_Buffer_ToHostBuffer);
  ST_PJRT_FUNCTION_(PJRT_Buffer_IsOnCpu);
  ST_PJRT_FUNCTION_(PJRT_Buffer_ReadyEvent);
  ST_PJRT_FUNCTION_(PJRT_Buffer_UnsafePointer);
  Unused PJRT_Buffer_IncreaseExternalReferenceCount;
  Unused PJRT_Buffer_DecreaseExternalReferenceCount;
  Unused PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
  Unused PJRT_CopyToDeviceStream_Destroy;
  Unused PJRT_CopyToDeviceStream_AddChunk;
  Unused PJRT_CopyToDeviceStream_TotalBytes;
  Unused PJRT_CopyToDeviceStream_GranuleSize;
  Unused PJRT_CopyToDeviceStream_CurrentBytes;
  Unused PJRT_TopologyDescription_Create;
  Unused PJRT_TopologyDescription_Destroy;
  Unused PJRT_TopologyDescription_PlatformName;
  Unused PJRT_TopologyDescription_PlatformVersion;
  Unused PJRT_TopologyDescription_GetDeviceDescriptions;
  Unused PJRT_TopologyDescription_Serialize;
  Unused PJRT_TopologyDescription_Attributes;
  Unused PJRT_Compile;
  ST_PJRT_FUNCTION_(PJRT_Executable_OutputElementTypes);
  ST_PJRT_FUNCTION_(PJRT_Executable_OutputDimensions);
  ST_PJRT_FUNCTION_(PJRT_Buffer_CopyToMemory);
  Unused PJRT_Client_CreateViewOfDeviceBuffer;
  ST_PJRT_FUNCTION_(PJRT_Executable_Fingerprint);
  Unused PJRT_Client_TopologyDescription;
  ST_PJRT_FUNCTION_(PJRT_Executable_GetCompiledMemoryStats);
  Unused PJRT_Memory_Kind_Id;
  ST_PJRT_FUNCTION_(PJRT_ExecuteContext_Create);
  ST_PJRT_FUNCTION_(PJRT_ExecuteContext_Destroy);
  Unused PJRT_Buffer_CopyRawToHost;
  Unused PJRT_AsyncHostToDeviceTransferManager_Destroy;
  Unused PJRT_AsyncHostToDeviceTransferManager_TransferData;
  Unused PJRT_Client_CreateBuffersForAsyncHostToDevice;
  Unused PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
  Unused PJRT_AsyncHostToDeviceTransferManager_Device;
  Unused PJRT_AsyncHostToDeviceTransferManager_BufferCount;
  Unused PJRT_AsyncHostToDeviceTransferManager_BufferSize;
  Unused PJRT_AsyncHostToDeviceTransferManager_SetBufferError;
  Unused PJRT_AsyncHostToDeviceTransferManager_AddMetadata;
  Unused PJRT_Client_DmaMap;
  Unused PJRT_Client_DmaUnmap;
  // The last one we call; not in every plug-in of the oldest version, so its place is checked against
  // PJRT_Api::struct_size first. Later entries aren't declared.
  ST_PJRT_FUNCTION_(PJRT_Client_CreateUninitializedBuffer);
};
#undef ST_PJRT_FUNCTION_

}  // namespace switchtower::pjrt::abi
