// What is told of prepare jobs while they wait and run, and what of a checkpoint's server ends
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checkpoint_folder.hpp"
#include "unit/prepare/job_runs.hpp"
#include "unit/prepare/served_file.hpp"

namespace tenzro::testing {
namespace {

using rpc::PrepareState;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Shape = CheckpointFolder::Shape;

const std::string kHub = "https://files.example/m";

rpc::PrepareExpertsCall call_for(const std::string& source) {
  return {.model = "toy", .layer = 0, .source = source};
}

std::vector<rpc::PrepareStatusAnswer> jobs_of(NodeWorld& world) {
  const RequestId request = world.begin(rpc::PrepareListCall{});
  return expect_answer<rpc::PrepareListAnswer>(*world.answer(request)).jobs;
}

std::string error_of(NodeWorld& world, const rpc::PrepareExpertsCall& call) {
  return run(world, call).error.value_or("");
}

/// A hub that wants to be left alone for ten minutes before its first file.
class RateLimitedHub {
 public:
  explicit RateLimitedHub(NodeWorld& world) {
    world.web = [this](const work::Download& download) -> work::Downloaded {
      if (is_limited) return {.status = 429, .wait = std::chrono::minutes(10)};
      return serve(folder.path(), download);
    };
  }

  CheckpointFolder folder{Shape{}};
  bool is_limited = true;
};

rpc::PrepareStartedAnswer start_waiting(NodeWorld& world, const rpc::PrepareExpertsCall& call) {
  return expect_answer<rpc::PrepareStartedAnswer>(world.call(call));
}

TEST(PrepareWatch, AJobThatWaitsForItsConfigIsAnsweredListedAndCanBeCancelled) {
  NodeWorld::Setup setup;
  setup.options.prepare.jobs_max = 1;
  NodeWorld world(setup);
  const RateLimitedHub hub(world);
  const auto started = start_waiting(world, call_for(kHub));
  EXPECT_EQ(started.state, PrepareState::waiting);
  EXPECT_EQ(started.total_experts, 0U);
  const auto jobs = jobs_of(world);
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].job_id, started.job_id);
  EXPECT_EQ(jobs[0].state, PrepareState::waiting);
  EXPECT_EQ(jobs[0].source, kHub);
  EXPECT_TRUE(jobs[0].progress.rate_limit_ms);
  EXPECT_EQ(status_of(world, jobs[0].job_id).state, PrepareState::waiting);
  EXPECT_EQ(world.call(call_for(kHub)).error().code, ErrorCode::busy);
  const auto cancelled =
      expect_answer<rpc::PrepareCancelAnswer>(world.call(rpc::PrepareCancelCall{jobs[0].job_id}));
  EXPECT_TRUE(cancelled.cancelled);
  EXPECT_EQ(status_of(world, started.job_id).state, PrepareState::cancelled);
  const CheckpointFolder folder(Shape{});
  EXPECT_EQ(error_of(world, call_for(folder.path())), "");  // its place is free again
}

TEST(PrepareWatch, AJobThatWaitedGoesOnWhereTheLimitEnds) {
  NodeWorld world;
  RateLimitedHub hub(world);
  const auto started = start_waiting(world, call_for(kHub));
  hub.is_limited = false;
  while (status_of(world, started.job_id).state == PrepareState::waiting) {
    ASSERT_TRUE(world.advance_to_deadline());
    world.settle();
  }
  const auto ended = status_of(world, started.job_id);
  EXPECT_EQ(ended.state, PrepareState::completed) << ended.error.value_or("");
  EXPECT_GT(ended.total_experts, 0U);
}

TEST(PrepareWatch, AJobThatWaitedAndIsRefusedHasFailed) {
  NodeWorld world;
  RateLimitedHub hub(world);
  rpc::PrepareExpertsCall call = call_for(kHub);
  call.experts = {99};
  const auto started = start_waiting(world, call);
  hub.is_limited = false;
  while (status_of(world, started.job_id).state == PrepareState::waiting) {
    ASSERT_TRUE(world.advance_to_deadline());
    world.settle();
  }
  world.restart();
  const auto ended = status_of(world, started.job_id);
  EXPECT_EQ(ended.state, PrepareState::failed);
  EXPECT_THAT(ended.error.value_or(""), HasSubstr("expert 99 out of range"));
}

TEST(PrepareWatch, AJobThatWaitsOutlivesItsNode) {
  NodeWorld world;
  RateLimitedHub hub(world);
  const auto started = start_waiting(world, call_for(kHub));
  hub.is_limited = false;
  world.restart();
  EXPECT_EQ(status_of(world, started.job_id).state, PrepareState::waiting);
  world.settle();
  const auto ended = status_of(world, started.job_id);
  EXPECT_EQ(ended.state, PrepareState::completed) << ended.error.value_or("");
}

TEST(PrepareWatch, ASilentSourceHoldsNoStartForLongerThanSeconds) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  const RequestId start = world.begin(call_for(folder.path()));
  EXPECT_FALSE(world.answer(start));
  world.advance(std::chrono::milliseconds(4999));
  EXPECT_FALSE(world.answer(start));
  world.advance(std::chrono::milliseconds(1));
  const auto answer = world.answer(start);
  ASSERT_TRUE(answer);
  const auto started = expect_answer<rpc::PrepareStartedAnswer>(*answer);
  EXPECT_EQ(started.state, PrepareState::waiting);
  world.settle();
  EXPECT_FALSE(world.answer(start));  // once
  EXPECT_EQ(status_of(world, started.job_id).state, PrepareState::completed);
}

TEST(PrepareWatch, AStartThatIsCancelledBeforeItsAnswerIsRefused) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  const RequestId start = world.begin(call_for(folder.path()));
  ASSERT_THAT(jobs_of(world), SizeIs(1));
  const RequestId cancel = world.begin(rpc::PrepareCancelCall{jobs_of(world)[0].job_id});
  ASSERT_TRUE(world.answer(cancel));
  const auto refused = world.answer(start);
  ASSERT_TRUE(refused);
  ASSERT_FALSE(*refused);
  EXPECT_EQ(refused->error().message(), "the job was cancelled before it began");
  EXPECT_THAT(jobs_of(world), IsEmpty());
}

TEST(PrepareWatch, ASummaryCountsTheBlobsAndLeavesThemOut) {
  const CheckpointFolder folder(Shape{.experts = 4});
  NodeWorld world;
  const auto started =
      expect_answer<rpc::PrepareStartedAnswer>(world.call(call_for(folder.path())));
  const auto summary = status_of(world, started.job_id, true);
  EXPECT_EQ(summary.state, PrepareState::completed);
  EXPECT_EQ(summary.completed_experts, 4U);
  EXPECT_THAT(summary.experts, IsEmpty());
  EXPECT_FALSE(summary.gate);
  const auto whole = status_of(world, started.job_id);
  EXPECT_THAT(whole.experts, SizeIs(4));
  EXPECT_EQ(whole.progress.bytes_published, summary.progress.bytes_published);
}

TEST(PrepareWatch, NoMoreIsReadThanIsWanted) {
  const CheckpointFolder folder(Shape{.experts = 5});
  NodeWorld world;
  const RequestId start = world.begin(call_for(folder.path()));
  std::string id;
  while (world.work()) {
    if (const auto started = world.answer(start); started)
      id = expect_answer<rpc::PrepareStartedAnswer>(*started).job_id;
    if (id.empty()) continue;
    const auto progress = status_of(world, id, true).progress;
    if (progress.bytes_wanted > 0) {
      EXPECT_LE(progress.bytes_read, progress.bytes_wanted);
    }
  }
  const auto ended = status_of(world, id, true);
  EXPECT_EQ(ended.state, PrepareState::completed);
  EXPECT_EQ(ended.progress.bytes_read, ended.progress.bytes_wanted);
}

TEST(PrepareWatch, AJobWhoseLogCannotBeWrittenFailsSayingSo) {
  const CheckpointFolder folder(Shape{});
  NodeWorld::Setup setup;
  bool is_full = false;
  setup.store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_full || !std::holds_alternative<work::LogJob>(op)) return {};
    return fail(ErrorCode::no_space, "jobs.db", "is full");
  };
  NodeWorld world(setup);
  is_full = true;
  EXPECT_EQ(error_of(world, call_for(folder.path())), "the job's log: jobs.db: is full");
  ASSERT_THAT(jobs_of(world), SizeIs(1));
  is_full = false;
  const std::string id = jobs_of(world)[0].job_id;
  ASSERT_TRUE(world.call(rpc::PrepareResumeCall{id}));
  EXPECT_EQ(status_of(world, id).state, PrepareState::completed);
}

TEST(PrepareWatch, AnIndexThatIsSomethingElseIsSaidToBeThat) {
  const std::string name = "model.safetensors.index.json";

  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"<!doctype html><p>sign in", "the file is an HTML page"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "the file is a git LFS pointer, not the data it names"},
      {"[1]", "is not a JSON object"},
      {R"({"weight_map":{})", "is not a JSON object"},
      {R"({"metadata":{"weight_map":{}}})", "weight_map is missing or not an object"},
      {R"({"weight_map":{},"weight_map":{}})", "weight_map is named twice"},
      {R"({"weight_map":{"model.layers.0.mlp.gate.weight":["a"]}})",
       "the file of tensor 'model.layers.0.mlp.gate.weight' is not a string"},
      {R"({"weight_map":{"model.layers.0.mlp.a":"a","model.layers.0.mlp.a":"b"}})",
       "tensor 'model.layers.0.mlp.a' is named twice"},
  };

  for (const auto& one : cases) {
    const CheckpointFolder folder(Shape{});
    folder.write(name, one.text);
    NodeWorld world;
    EXPECT_EQ(error_of(world, call_for(folder.path())), name + ": " + one.why) << one.text;
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  const CheckpointFolder folder(Shape{});
  folder.write(name, deep);
  NodeWorld world;
  EXPECT_EQ(error_of(world, call_for(folder.path())), name + ": is nested too deeply");
}

TEST(PrepareWatch, AConfigThatIsTooLargeIsSaidToBeThat) {
  const CheckpointFolder folder(Shape{});
  folder.write("config.json", "{\"a\":\"" + std::string(8U << 20U, 'x') + "\"}");
  NodeWorld world;
  EXPECT_EQ(error_of(world, call_for(folder.path())),
            "start: config.json: has 8388616 bytes, at most 4194304 are read");
}

TEST(PrepareWatch, ARepositoryThatChangesBetweenItsFilesEndsTheJobNamingBothCommits) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  world.web = [&](const work::Download& download) {
    work::Downloaded downloaded = serve(folder.path(), download);
    const bool is_config = download.url.ends_with("config.json");
    downloaded.commit = is_config ? "0123abc" : "4567def";
    return downloaded;
  };
  EXPECT_EQ(error_of(world, call_for(kHub)),
            "model.safetensors: is of commit 4567def, and 'config.json' was of commit "
            "0123abc: the repository was changed since the job began; start a new one");
}

TEST(PrepareWatch, AReadThatFailsNamesItsFileAndItsTensor) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  world.web = [&](const work::Download& download) -> work::Downloaded {
    const bool is_header = download.offset <= 8;
    if (download.url.ends_with("/model.safetensors") && !is_header) return {.status = 403};
    return serve(folder.path(), download);
  };
  rpc::PrepareExpertsCall call = call_for(kHub);
  call.experts = std::vector<ExpertIndex>{1};
  const std::string with_gate = error_of(world, call);
  EXPECT_THAT(with_gate, HasSubstr("model.safetensors: the server answered HTTP status 403"));
  EXPECT_THAT(with_gate, HasSubstr("(reading tensor 'model.layers.0.mlp.gate.weight')"));
  call.include_gate = false;
  EXPECT_THAT(error_of(world, call),
              HasSubstr("(reading tensor 'model.layers.0.mlp.experts.1.gate_proj.weight')"));
}

TEST(PrepareWatch, AnImatrixOverHttpGivesTheBlobsOfTheFolder) {
  const std::string folder = std::string(TENZRO_TEST_DATA) + "/gguf";
  const auto type = tensor::WeightType::q4_k;
  rpc::PrepareExpertsCall call = call_for(folder + "/two_experts.gguf");
  call.quant = rpc::QuantPlan{type, type, type, "\"q4_k\""};
  std::vector<std::string> uris;
  for (const bool has_imatrix : {true, false}) {
    for (const std::string& source : {folder, kHub}) {
      NodeWorld world;
      world.web = [&](const work::Download& download) { return serve(folder, download); };
      call.source = source + "/two_experts.gguf";
      call.imatrix = has_imatrix ? std::optional<std::string>("imatrix.gguf") : std::nullopt;
      const auto started = expect_answer<rpc::PrepareStartedAnswer>(world.call(call));
      const auto status = status_of(world, started.job_id);
      ASSERT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
      uris.push_back(status.experts.at(0).uri);
    }
  }
  EXPECT_EQ(uris[0], uris[1]);
  EXPECT_NE(uris[1], uris[3]);
}

}  // namespace
}  // namespace tenzro::testing
