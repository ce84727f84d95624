#include "controller/schedule/gang_table.h"

#include <algorithm>
#include <utility>

namespace switchtower {

bool Includes(const std::vector<WorkerLinkPtr>& links, const WorkerLink& link) {
  auto it = std::lower_bound(links.begin(), links.end(), link.seat,
                             [](const WorkerLinkPtr& one, int32_t seat) { return one->seat < seat; });
  return it != links.end() && it->get() == &link;
}

bool GangDirectory::Matches(const Entry& entry) const {
  for (size_t i = 0; i < entry.devices->seats.size(); ++i) {
    if (view_.link(entry.devices->seats[i]) != entry.gang->links[i]) return false;
  }
  return true;
}

void GangDirectory::Drop(const Gang& gang) {
  auto command = std::make_shared<const SharedCommand>(WorkerCommand(DropGang{gang.id}));
  for (const WorkerLinkPtr& link : gang.links) link->Send(command);
}

const GangPtr& GangDirectory::For(const DeviceListPtr& devices) {
  Entry& entry = gangs_[devices.get()];
  if (entry.gang != nullptr) {
    if (entry.binding_version == view_.binding_version()) return entry.gang;
    if (Matches(entry)) {
      entry.binding_version = view_.binding_version();
      return entry.gang;
    }
    Drop(*entry.gang);
  }
  view_.TellPeers();
  auto gang = std::make_shared<Gang>();
  gang->id = GangId{next_id_++};
  for (int32_t seat : devices->seats) gang->links.push_back(view_.link(seat));
  DefineGang define{gang->id, {}};
  define.ranks.reserve(devices->places.size());
  for (const Place& place : devices->places) define.ranks.push_back(view_.Where(place));
  auto command = std::make_shared<const SharedCommand>(WorkerCommand(std::move(define)));
  for (const WorkerLinkPtr& link : gang->links) link->Send(command);
  entry = Entry{devices, std::move(gang), view_.binding_version()};
  return entry.gang;
}

void GangDirectory::Sweep() {
  absl::erase_if(gangs_, [](const auto& item) {
    const Entry& entry = item.second;
    if (entry.devices.use_count() > 1) return false;
    if (entry.gang != nullptr) Drop(*entry.gang);
    return true;
  });
}

}  // namespace switchtower
