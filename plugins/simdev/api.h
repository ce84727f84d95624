// The opaque types of the PJRT C ABI, as this plug-in fills them, and what all of its entries use.
//
// Place:    plugins/simdev; api_client.cc, api_program.cc and api_buffer.cc hold the entries, api.cc the table.
// Threads:  as PJRT says: any, for all objects but a client that is being destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugins/simdev/device.h"
#include "plugins/simdev/program.h"

namespace switchtower::pjrt::abi {
struct PJRT_Error {
  simdev::Failure failure;
};
struct PJRT_Event {
  simdev::StatePtr state;
};
struct PJRT_Device {
  std::unique_ptr<simdev::Device> device;
  std::vector<PJRT_Memory*> memories;
};
struct PJRT_Memory {
  simdev::Memory* memory;
};
struct PJRT_DeviceDescription : PJRT_Device {};
struct PJRT_Client {
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_Device*> device_list;
  std::vector<std::unique_ptr<PJRT_Memory>> memories;
  std::vector<PJRT_Memory*> memory_list;
};
struct PJRT_Executable {
  std::shared_ptr<const simdev::Program> program;
  std::vector<PJRT_Buffer_Type> types;
  std::vector<int64_t> dims;
  std::vector<size_t> dim_sizes;
  std::vector<const char*> memory_kinds;
  std::vector<size_t> memory_kind_sizes;
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::shared_ptr<const simdev::Program> program;
};
struct PJRT_ExecuteContext {};
struct PJRT_Buffer {
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::vector<int64_t> minor_to_major;
  std::mutex mutex;
  std::shared_ptr<simdev::Storage> storage;  // null: deleted or donated; guarded by mutex

  std::shared_ptr<simdev::Storage> Get() {
    std::lock_guard lock(mutex);
    return storage;
  }
  std::shared_ptr<simdev::Storage> Take() {
    std::lock_guard lock(mutex);
    return std::move(storage);
  }
};
}  // namespace switchtower::pjrt::abi

namespace simdev {

namespace abi = switchtower::pjrt::abi;

// Codes of absl::Status.
inline constexpr int kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kAborted = 10,
                     kUnimplemented = 12;

abi::PJRT_Error* Error(int code, std::string message);
// Null if it is none.
abi::PJRT_Error* ToError(const Failure& failure);

// Null if the memory has no room.
std::shared_ptr<Storage> Allocate(abi::PJRT_Memory* memory, int64_t bytes);
abi::PJRT_Error* OutOfMemory(abi::PJRT_Memory* memory, int64_t bytes);
abi::PJRT_Buffer* NewBuffer(abi::PJRT_Device* device, abi::PJRT_Memory* memory, abi::PJRT_Buffer_Type type,
                            std::vector<int64_t> dims, std::shared_ptr<Storage> storage);

// Put their entries into the table.
void AddClientEntries(abi::PJRT_Api& api);   // errors, events, clients, devices, memories
void AddProgramEntries(abi::PJRT_Api& api);  // executables and their execution
void AddBufferEntries(abi::PJRT_Api& api);

}  // namespace simdev
