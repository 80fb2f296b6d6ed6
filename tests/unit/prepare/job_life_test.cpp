// Prepare jobs that are stopped, resumed, remembered, spread over layers, loaded, or fed over HTTP.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/wire/uri.hpp"

#include "support/checkpoint_folder.hpp"
#include "unit/prepare/job_runs.hpp"
#include "unit/prepare/served_file.hpp"

namespace tenzro::testing {
namespace {

using rpc::PrepareState;
using ::testing::HasSubstr;
using Shape = CheckpointFolder::Shape;
using Tensors = CheckpointFolder::Tensors;

const std::string kModels = std::string(TENZRO_TEST_DATA) + "/models/";

rpc::QuantPlan q8() {
  const auto type = tensor::WeightType::q8_0;
  return {type, type, type, "\"q8_0\""};
}

rpc::PrepareExpertsCall call_for(const std::string& source) {
  return {.model = "toy", .layer = 0, .quant = q8(), .source = source};
}

/// Works until the job has published so many experts, or is over.
void work_until(NodeWorld& world, const std::string& id, std::size_t experts) {
  while (status_of(world, id).experts.size() < experts && world.work()) {
  }
}

/// So many may be cut off in the middle.
std::size_t world_experts_in_flight() {
  return prepare::Options{}.experts_in_flight;
}

/// Counts publications, and lets one of them fail.
struct Publications {
  std::size_t count = 0;
  std::optional<std::size_t> failing;

  NodeWorld::Setup setup() {
    NodeWorld::Setup setup;
    setup.store_fault = [this](const work::StoreOp& op) -> Status {
      if (!std::holds_alternative<work::PublishBlob>(op)) return {};
      if (++count == failing) return fail(ErrorCode::no_space, "disk", "is full");
      return {};
    };
    return setup;
  }
};

TEST(PrepareLife, AKilledNodeGoesOnWithTheRestByItself) {
  const CheckpointFolder folder(Shape{.experts = 8});
  std::vector<std::string> whole;
  {
    NodeWorld world;
    whole = uris_of(run(world, call_for(folder.path())));
  }
  Publications publications;
  NodeWorld world(publications.setup());
  const std::string id = begin(world, call_for(folder.path()));
  work_until(world, id, 3);
  const std::size_t before = publications.count;
  world.restart();
  const rpc::PrepareStatusAnswer resumed = status_of(world, id);
  EXPECT_EQ(resumed.state, PrepareState::running);
  EXPECT_GE(resumed.experts.size(), 3U);
  const std::size_t known = resumed.experts.size() + resumed.gates.size();
  EXPECT_EQ(known, before);  // each that was published
  world.settle();
  const rpc::PrepareStatusAnswer done = status_of(world, id);
  EXPECT_EQ(done.state, PrepareState::completed) << done.error.value_or("");
  EXPECT_EQ(uris_of(done), whole);
  EXPECT_EQ(publications.count, 9U);  // none twice
}

TEST(PrepareLife, AFailedJobKeepsItsPartsAndIsResumed) {
  const CheckpointFolder folder(Shape{.experts = 6});
  Publications publications;
  publications.failing = 4;
  NodeWorld world(publications.setup());
  const rpc::PrepareStatusAnswer failed = run(world, call_for(folder.path()));
  EXPECT_EQ(failed.state, PrepareState::failed);
  EXPECT_EQ(failed.error, "disk: is full");
  const auto resumed =
      expect_answer<rpc::PrepareStartedAnswer>(world.call(rpc::PrepareResumeCall{failed.job_id}));
  EXPECT_EQ(resumed.job_id, failed.job_id);
  EXPECT_EQ(resumed.total_experts, 6U);
  const rpc::PrepareStatusAnswer done = status_of(world, failed.job_id);
  EXPECT_EQ(done.state, PrepareState::completed) << done.error.value_or("");
  EXPECT_EQ(done.error, std::nullopt);
  EXPECT_EQ(done.experts.size(), 6U);
  EXPECT_LE(publications.count, 9U);  // those in flight at the failure at most twice
  const auto again = world.call(rpc::PrepareResumeCall{failed.job_id});
  EXPECT_EQ(again.error().message(), "prepare job " + failed.job_id +
                                         " is completed: only one that failed or was cancelled is "
                                         "resumed");
  EXPECT_EQ(world.call(rpc::PrepareResumeCall{"x"}).error().message(), "unknown prepare job: x");
}

TEST(PrepareLife, ACancelledJobGoesOnWhereItStopped) {
  const CheckpointFolder folder(Shape{.experts = 6});
  Publications publications;
  NodeWorld world(publications.setup());
  const std::string id = begin(world, call_for(folder.path()));
  work_until(world, id, 2);
  EXPECT_TRUE(
      expect_answer<rpc::PrepareCancelAnswer>(world.call(rpc::PrepareCancelCall{id})).cancelled);
  EXPECT_EQ(status_of(world, id).state, PrepareState::cancelled);
  const std::size_t before = status_of(world, id).experts.size();
  world.restart();  // a cancelled job does not go on by itself
  world.settle();
  EXPECT_EQ(status_of(world, id).state, PrepareState::cancelled);
  EXPECT_GE(status_of(world, id).experts.size(), before);
  ASSERT_TRUE(world.call(rpc::PrepareResumeCall{id}));
  EXPECT_EQ(status_of(world, id).state, PrepareState::completed);
  EXPECT_EQ(status_of(world, id).experts.size(), 6U);
  // 6 experts and a gate; those in flight at the cancellation at most twice.
  EXPECT_LE(publications.count, 7U + world_experts_in_flight());
}

TEST(PrepareLife, BlobsThatAreGoneWhenAJobIsResumedAreMadeAgain) {
  for (const bool restarts : {false, true}) {
    const CheckpointFolder folder(Shape{.experts = 6});
    Publications publications;
    publications.failing = 6;
    NodeWorld world(publications.setup());
    const rpc::PrepareStatusAnswer failed = run(world, call_for(folder.path()));
    ASSERT_EQ(failed.state, PrepareState::failed);
    ASSERT_GE(failed.experts.size(), 2U);
    for (const rpc::PreparedBlob& blob : {failed.experts[0], failed.experts[1]})
      world.blobs().erase(wire::parse_blob_uri(blob.uri)->hash);
    if (restarts) world.restart();
    world.settle();
    const std::size_t before = publications.count;
    ASSERT_TRUE(world.call(rpc::PrepareResumeCall{failed.job_id}));
    const rpc::PrepareStatusAnswer done = status_of(world, failed.job_id);
    EXPECT_EQ(done.state, PrepareState::completed) << done.error.value_or("");
    ASSERT_EQ(done.experts.size(), 6U);
    for (const std::string& uri : uris_of(done))
      EXPECT_TRUE(world.blobs().contains(wire::parse_blob_uri(uri)->hash)) << uri;
    // What is missing of 7, and the two; of those still there none again.
    EXPECT_LE(publications.count - before, 4U + 2U);
  }
}

TEST(PrepareLife, HistoryOutlivesTheNodeAndHasABound) {
  const CheckpointFolder folder(Shape{});
  NodeWorld::Setup setup;
  setup.options.prepare.history_max = 2;
  NodeWorld world(setup);
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(run(world, call_for(folder.path())).job_id);
  world.restart();
  world.settle();
  const auto list = expect_answer<rpc::PrepareListAnswer>(world.call(rpc::PrepareListCall{}));
  ASSERT_EQ(list.jobs.size(), 2U);
  EXPECT_EQ(list.jobs[1].job_id, ids[3]);
  EXPECT_EQ(list.jobs[1].state, PrepareState::completed);
  EXPECT_EQ(list.jobs[1].completed_experts, 3U);
  EXPECT_TRUE(list.jobs[1].experts.empty());
  EXPECT_EQ(status_of(world, ids[3]).experts.size(), 3U);
  EXPECT_EQ(world.store().jobs().size(), 2U);
}

TEST(PrepareLife, AFileThatWasReplacedWhileTheNodeWasAwayIsAnError) {
  const CheckpointFolder folder(Shape{.experts = 6});
  NodeWorld world;
  const std::string id = begin(world, call_for(folder.path()));
  work_until(world, id, 2);
  const CheckpointFolder other(Shape{.experts = 7});
  std::ifstream in(other.path() + "/model.safetensors", std::ios::binary);
  folder.write("model.safetensors", std::string(std::istreambuf_iterator<char>(in), {}));
  world.restart();
  world.settle();
  const rpc::PrepareStatusAnswer status = status_of(world, id);
  EXPECT_EQ(status.state, PrepareState::failed);
  EXPECT_THAT(status.error.value_or(""), HasSubstr("was changed"));
  EXPECT_GE(status.experts.size(), 2U);
}

TEST(PrepareLife, NothingIsPublishedWhereTheWholeDoesNotFit) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  world.store().space_bytes = 20'000;
  const rpc::PrepareStatusAnswer status = run(world, call_for(folder.path()));
  EXPECT_EQ(status.state, PrepareState::failed);
  EXPECT_THAT(status.error.value_or(""), HasSubstr("bytes do not fit"));
  EXPECT_TRUE(world.blobs().empty());
}

TEST(PrepareLife, SeveralLayersAreOneJobWithTheBlobsOfEach) {
  const std::string source = kModels + "tiny-deepseek-v3";
  NodeWorld world;
  rpc::PrepareExpertsCall call = call_for(source);
  call.experts = std::vector<ExpertIndex>{0, 5};
  call.has_all_layers = true;
  const rpc::PrepareStatusAnswer all = run(world, call);
  ASSERT_EQ(all.state, PrepareState::completed) << all.error.value_or("");
  ASSERT_GE(all.layers.size(), 2U);
  EXPECT_EQ(all.total_experts, 2 * all.layers.size());
  EXPECT_EQ(all.experts.size(), all.total_experts);
  EXPECT_EQ(all.gates.size(), all.layers.size());
  EXPECT_EQ(all.gate, std::nullopt);
  // Config, index and headers are among what is wanted: at the end all of it was read.
  EXPECT_EQ(all.progress.bytes_read, all.progress.bytes_wanted);
  call.has_all_layers = false;
  call.layer = all.layers.back();
  const rpc::PrepareStatusAnswer one = run(world, call);
  ASSERT_EQ(one.state, PrepareState::completed);
  EXPECT_EQ(one.experts.back().uri, all.experts.back().uri);
  EXPECT_EQ(one.experts.back().layer, all.layers.back());
  EXPECT_EQ(one.gate->uri, all.gates.back().uri);
  call.layers = {all.layers.front(), 999};
  const auto refused = world.call(call);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("layer: 999 is out of range"));
}

TEST(PrepareLife, IndexAndHeadersAreReadOnceForAllLayersOfAJob) {
  const std::string folder = kModels + "tiny-deepseek-v3";
  NodeWorld world;
  std::map<std::string, std::size_t> first_bytes;  // requests for the beginning, by file
  world.web = [&](const work::Download& download) {
    if (download.offset == 0) ++first_bytes[download.url.substr(download.url.rfind('/') + 1)];
    return serve(folder, download);
  };
  std::size_t scans = 0;
  world.on_run = [&](const work::Job& job) {
    scans += std::holds_alternative<work::ScanIndex>(job);
  };
  rpc::PrepareExpertsCall call = call_for("https://hub.example/m");
  call.experts = std::vector<ExpertIndex>{0, 5};
  call.layers = {1, 2};  // one of the files has tensors of both
  const rpc::PrepareStatusAnswer status = run(world, call);
  ASSERT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(status.experts.size(), 4U);
  EXPECT_EQ(scans, 1U);
  EXPECT_EQ(first_bytes,
            (std::map<std::string, std::size_t>{{"config.json", 1},
                                                {"model.safetensors.index.json", 1},
                                                {"model-00001-of-00003.safetensors", 1},
                                                {"model-00002-of-00003.safetensors", 1},
                                                {"model-00003-of-00003.safetensors", 1}}));
}

TEST(PrepareLife, LoadedExpertsAreServedAndACutOffLoadIsMadeUpFor) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  rpc::PrepareExpertsCall call = call_for(folder.path());
  call.loads = true;
  const std::string id = begin(world, call);
  work_until(world, id, 1);
  world.restart();
  world.settle();
  EXPECT_EQ(status_of(world, id).state, PrepareState::completed)
      << status_of(world, id).error.value_or("");
  const auto held = expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{}));
  ASSERT_EQ(held.experts.size(), 3U);
  EXPECT_EQ(held.gates.size(), 1U);
  EXPECT_EQ(held.experts[1].source_uri, status_of(world, id).experts[1].uri);
}

TEST(PrepareLife, HttpGivesTheBlobsOfTheFolder) {
  for (const char* model : {"tiny-qwen3-moe", "tiny-deepseek-v3"}) {
    const std::string folder = kModels + model;
    rpc::PrepareExpertsCall call = call_for(folder);
    call.layer = 1;
    call.experts = std::vector<ExpertIndex>{0, 3, 7};
    NodeWorld world;
    const rpc::PrepareStatusAnswer local = run(world, call);
    ASSERT_EQ(local.state, PrepareState::completed) << local.error.value_or("");
    std::uint64_t bytes = 0;
    world.web = [&](const work::Download& download) {
      bytes += download.room.size();
      return serve(folder, download);
    };
    call.source = "https://hub.example/o/n/resolve/main";
    const rpc::PrepareStatusAnswer remote = run(world, call);
    ASSERT_EQ(remote.state, PrepareState::completed) << remote.error.value_or("");
    EXPECT_EQ(uris_of(remote), uris_of(local));
    EXPECT_EQ(remote.source, "https://hub.example/o/n/resolve/main");
    EXPECT_EQ(remote.progress.bytes_read, local.progress.bytes_read);
  }
}

TEST(PrepareLife, TheCataloguesRepositoryIsAskedForAtTheHub) {
  NodeWorld::Setup setup;
  setup.options.prepare.source.hub_url = "https://hub.example/";
  NodeWorld world(setup);
  std::vector<std::string> urls;
  world.web = [&](const work::Download& download) -> work::Downloaded {
    urls.push_back(download.url);
    return {.status = 404};
  };
  const auto refused = world.call(rpc::PrepareExpertsCall{.model = "qwen3-30b-a3b", .layer = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "source: config.json: the server answered HTTP status 404");
  EXPECT_EQ(urls, std::vector<std::string>{
                      "https://hub.example/Qwen/Qwen3-30B-A3B/resolve/main/config.json"});
}

TEST(PrepareLife, ARateLimitIsShownWhileItLasts) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  bool is_refusing = false;
  world.web = [&](const work::Download& download) -> work::Downloaded {
    if (is_refusing) return {.status = 429, .wait = std::chrono::seconds(30)};
    return serve(folder.path(), download);
  };
  const std::string id = begin(world, call_for("https://files.example/m"));
  is_refusing = true;
  world.settle();
  const auto waiting = status_of(world, id);
  EXPECT_EQ(waiting.state, PrepareState::running);
  ASSERT_TRUE(waiting.progress.rate_limit_ms);
  EXPECT_GE(*waiting.progress.rate_limit_ms, 30'000U);
  is_refusing = false;
  while (world.advance_to_deadline()) world.settle();
  EXPECT_EQ(status_of(world, id).state, PrepareState::completed);
  EXPECT_FALSE(status_of(world, id).progress.rate_limit_ms);
}

}  // namespace
}  // namespace tenzro::testing
