#include "hlo/source_location.h"

#include "absl/strings/str_cat.h"

namespace switchtower {

std::string SourceOf(const xla::HloModuleProto& module, const xla::OpMetadata& metadata) {
  if (!metadata.source_file().empty()) return absl::StrCat(metadata.source_file(), ":", metadata.source_line());
  const xla::StackFrameIndexProto& index = module.stack_frame_index();
  // All ids count from 1.
  const int frame = metadata.stack_frame_id();
  if (frame < 1 || frame > index.stack_frames_size()) return "";
  const int location_id = index.stack_frames(frame - 1).file_location_id();
  if (location_id < 1 || location_id > index.file_locations_size()) return "";
  const auto& location = index.file_locations(location_id - 1);
  if (location.file_name_id() < 1 || location.file_name_id() > index.file_names_size()) return "";
  return absl::StrCat(index.file_names(location.file_name_id() - 1), ":", location.line());
}

}  // namespace switchtower
