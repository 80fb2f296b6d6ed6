// What every node believes of the mesh, after whatever happened to it.
#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool have_equal_views(Mesh& mesh) {
  const std::string first = mesh.view_of(0);
  for (std::size_t i = 1; i < mesh.world.size(); ++i) {
    if (mesh.view_of(i) != first) return false;
  }
  return true;
}

class MeshViews : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(MeshViews, AreEqualAgainAfterAHealedPartition) {
  Mesh mesh({.seed = GetParam(), .nodes = 6});
  mesh.world.part({1, 3, 5});
  mesh.world.run_for(seconds(90));
  EXPECT_FALSE(mesh.knows_all(0));
  mesh.world.heal();
  EXPECT_TRUE(
      mesh.wait_until([&] { return mesh.knows_all(0) && have_equal_views(mesh); }, seconds(120)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, MeshViews, ::testing::Range<std::uint64_t>(1, 9));

TEST(MeshViewsOnce, DeadHolderLeavesEveryView) {
  Mesh mesh({.nodes = 5});
  mesh.world.crash(2);
  mesh.world.run_for(seconds(30 + 2 * 10));
  const std::string gone = mesh.view_of(0);
  for (const std::size_t i : {1U, 3U, 4U}) EXPECT_EQ(mesh.view_of(i), gone);
  EXPECT_FALSE(mesh.knows_all(0));
}

TEST(MeshViewsOnce, NewHoldingIsKnownToAllAtOnce) {
  Mesh mesh({.nodes = 5, .replicas = 2});
  const Instant begin = mesh.world.now();
  rpc::ExpertLoadCall load = mesh_expert_load(mesh.layer, 0);
  load.key.expert = kMeshExperts + 1;
  ASSERT_TRUE(mesh.world.call(3, load));
  const auto is_known = [&] {
    for (std::size_t i = 0; i < mesh.world.size(); ++i) {
      if (mesh.view_of(i).find("e" + std::to_string(kMeshExperts + 1) + ":") == std::string::npos)
        return false;
    }
    return true;
  };
  ASSERT_TRUE(mesh.wait_until(is_known, seconds(30)));
  EXPECT_LT(mesh.world.now() - begin, seconds(3));
}

TEST(MeshViewsOnce, EveryNodeListsEveryProvider) {
  Mesh mesh({.nodes = 5});
  for (std::size_t i = 0; i < mesh.world.size(); ++i) {
    const auto answer = mesh.world.call(i, rpc::ListProvidersCall{});
    ASSERT_TRUE(answer);
    EXPECT_EQ(std::get<rpc::ListProvidersAnswer>(*answer).providers.size(), mesh.world.size());
  }
}

}  // namespace
}  // namespace tenzro::testing
