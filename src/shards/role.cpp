#include <array>
#include <utility>

#include "tenzro/shards/view.hpp"

namespace tenzro::shards {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 7> kNames{
    {{Role::replica, "Replica"},
     {Role::router, "Router"},
     {Role::expert_holder, "ExpertHolder"},
     {Role::prefill_decode, "PrefillDecode"},
     {Role::prefill, "Prefill"},
     {Role::decode, "Decode"},
     {Role::pipeline_stage, "PipelineStage"}}};

}  // namespace

std::string_view name_of(Role role) {
  for (const auto& [known, name] : kNames) {
    if (known == role) return name;
  }
  return "";
}

std::optional<Role> role_from_name(std::string_view name) {
  for (const auto& [role, known] : kNames) {
    if (known == name) return role;
  }
  return std::nullopt;
}

}  // namespace tenzro::shards
