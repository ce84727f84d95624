// Entries for buffers, and the memory behind them.
#include <cstring>

#include "plugins/simdev/api.h"

namespace simdev {

using namespace switchtower::pjrt::abi;  // NOLINT: the ABI's own names

PJRT_Buffer* NewBuffer(PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer_Type type, std::vector<int64_t> dims,
                       std::shared_ptr<Storage> storage) {
  auto* buffer = new PJRT_Buffer{device, memory, type, std::move(dims), {}, {}, std::move(storage)};
  for (int64_t d = static_cast<int64_t>(buffer->dims.size()) - 1; d >= 0; --d) buffer->minor_to_major.push_back(d);
  return buffer;
}

std::shared_ptr<Storage> Allocate(PJRT_Memory* memory, int64_t bytes) {
  if (!memory->memory->Reserve(bytes)) return nullptr;
  return std::make_shared<Storage>(memory->memory, bytes);
}

PJRT_Error* OutOfMemory(PJRT_Memory* memory, int64_t bytes) {
  std::lock_guard lock(memory->memory->mutex);
  return Error(kResourceExhausted, memory->memory->debug + " has no room for " + std::to_string(bytes) +
                                       " bytes: " + std::to_string(memory->memory->used) + " of " +
                                       std::to_string(memory->memory->limit) + " are used");
}

namespace {

// Copies element by element between a dense row-major and a strided array.
void CopyStrided(const char* source, const int64_t* source_strides, char* target, const std::vector<int64_t>& dims,
                 size_t d, int64_t item, int64_t* written) {
  if (d == dims.size()) {
    std::memcpy(target + *written, source, item);
    *written += item;
    return;
  }
  for (int64_t i = 0; i < dims[d]; ++i) {
    CopyStrided(source + i * source_strides[d], source_strides, target, dims, d + 1, item, written);
  }
}

PJRT_Error* BufferFromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  PJRT_Memory* memory = args->memory;
  PJRT_Device* device = args->device;
  if (memory == nullptr) memory = device->memories[0];
  for (const auto& candidate : args->client->devices) {
    if (candidate->device.get() == memory->memory->device) device = candidate.get();
  }
  std::vector<int64_t> dims(args->dims, args->dims + args->num_dims);
  const int64_t item = ElementBytes(args->type);
  if (item == 0) return Error(kInvalidArgument, "simdev doesn't have this element type");
  const int64_t bytes = Bytes(args->type, dims);
  std::shared_ptr<Storage> storage = Allocate(memory, bytes);
  if (storage == nullptr) return OutOfMemory(memory, bytes);
  storage->data.resize(bytes);
  if (args->num_byte_strides == 0) {
    std::memcpy(storage->data.data(), args->data, bytes);
  } else {
    int64_t written = 0;
    CopyStrided(static_cast<const char*>(args->data), args->byte_strides, storage->data.data(), dims, 0, item,
                &written);
  }
  storage->state->Set({});
  auto done = std::make_shared<State>();
  done->Set({});
  args->done_with_host_buffer = new PJRT_Event{std::move(done)};
  args->buffer = NewBuffer(device, memory, args->type, std::move(dims), std::move(storage));
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}
PJRT_Error* BufferType(PJRT_Buffer_ElementType_Args* args) {
  args->type = args->buffer->type;
  return nullptr;
}
PJRT_Error* BufferDims(PJRT_Buffer_Dimensions_Args* args) {
  args->dims = args->buffer->dims.data();
  args->num_dims = args->buffer->dims.size();
  return nullptr;
}
PJRT_Error* BufferLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  args->layout = {};
  args->layout.struct_size = sizeof(args->layout);
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args->layout.tiled = {};
  args->layout.tiled.struct_size = sizeof(args->layout.tiled);
  args->layout.tiled.minor_to_major = args->buffer->minor_to_major.data();
  args->layout.tiled.minor_to_major_size = args->buffer->minor_to_major.size();
  return nullptr;
}
PJRT_Error* BufferSize(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  args->on_device_size_in_bytes = Bytes(args->buffer->type, args->buffer->dims);
  return nullptr;
}
PJRT_Error* BufferDevice(PJRT_Buffer_Device_Args* args) {
  args->device = args->buffer->device;
  return nullptr;
}
PJRT_Error* BufferMemory(PJRT_Buffer_Memory_Args* args) {
  args->memory = args->buffer->memory;
  return nullptr;
}
PJRT_Error* BufferDelete(PJRT_Buffer_Delete_Args* args) {
  args->buffer->Take();
  return nullptr;
}
PJRT_Error* BufferIsDeleted(PJRT_Buffer_IsDeleted_Args* args) {
  args->is_deleted = args->buffer->Get() == nullptr;
  return nullptr;
}

PJRT_Error* CopyTo(PJRT_Buffer* source, PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer** copy) {
  std::shared_ptr<Storage> from = source->Get();
  if (from == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  std::shared_ptr<Storage> to = Allocate(memory, from->bytes);
  if (to == nullptr) return OutOfMemory(memory, from->bytes);
  from->state->OnReady([from, to](const Failure& failure) {
    to->data = from->data;
    to->state->Set(failure);
  });
  *copy = NewBuffer(device, memory, source->type, source->dims, std::move(to));
  return nullptr;
}
PJRT_Error* BufferCopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return CopyTo(args->buffer, args->dst_device, args->dst_device->memories[0], &args->dst_buffer);
}
PJRT_Error* BufferCopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  return CopyTo(args->buffer, args->buffer->device, args->dst_memory, &args->dst_buffer);
}
PJRT_Error* BufferToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  std::shared_ptr<Storage> storage = args->src->Get();
  if (storage == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  if (args->dst == nullptr) {
    args->dst_size = storage->bytes;
    return nullptr;
  }
  if (static_cast<int64_t>(args->dst_size) < storage->bytes)
    return Error(kInvalidArgument, "the destination is too small");
  auto done = std::make_shared<State>();
  args->event = new PJRT_Event{done};
  storage->state->OnReady([storage, done, dst = static_cast<char*>(args->dst)](const Failure& failure) {
    if (failure.code == 0 && storage->data.empty()) std::memset(dst, 0, storage->bytes);
    if (failure.code == 0) std::memcpy(dst, storage->data.data(), storage->data.size());
    done->Set(failure);
  });
  return nullptr;
}
PJRT_Error* BufferIsOnCpu(PJRT_Buffer_IsOnCpu_Args* args) {
  args->is_on_cpu = false;
  return nullptr;
}
PJRT_Error* BufferReady(PJRT_Buffer_ReadyEvent_Args* args) {
  std::shared_ptr<Storage> storage = args->buffer->Get();
  if (storage == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  args->event = new PJRT_Event{storage->state};
  return nullptr;
}
PJRT_Error* BufferPointer(PJRT_Buffer_UnsafePointer_Args*) {
  return Error(kUnimplemented, "simdev's buffers have no address");
}

}  // namespace

void AddBufferEntries(PJRT_Api& api) {
  api.PJRT_Client_BufferFromHostBuffer = BufferFromHost;
  api.PJRT_Buffer_Destroy = BufferDestroy;
  api.PJRT_Buffer_ElementType = BufferType;
  api.PJRT_Buffer_Dimensions = BufferDims;
  api.PJRT_Buffer_GetMemoryLayout = BufferLayout;
  api.PJRT_Buffer_OnDeviceSizeInBytes = BufferSize;
  api.PJRT_Buffer_Device = BufferDevice;
  api.PJRT_Buffer_Memory = BufferMemory;
  api.PJRT_Buffer_Delete = BufferDelete;
  api.PJRT_Buffer_IsDeleted = BufferIsDeleted;
  api.PJRT_Buffer_CopyToDevice = BufferCopyToDevice;
  api.PJRT_Buffer_ToHostBuffer = BufferToHost;
  api.PJRT_Buffer_IsOnCpu = BufferIsOnCpu;
  api.PJRT_Buffer_ReadyEvent = BufferReady;
  api.PJRT_Buffer_UnsafePointer = BufferPointer;
  api.PJRT_Buffer_CopyToMemory = BufferCopyToMemory;
}

}  // namespace simdev
