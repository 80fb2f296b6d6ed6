// Prepare jobs whose repository is changed while they run, or between two of their lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checkpoint_folder.hpp"
#include "support/node_world.hpp"
#include "unit/prepare/served_file.hpp"

namespace tenzro::testing {
namespace {

using rpc::PrepareState;
using ::testing::HasSubstr;
using Shape = CheckpointFolder::Shape;

const std::string kHub = "https://hub.example/o/n/resolve/main";
const std::string kOther = "https://files.example/n";

/// A repository of several commits, of which the last is its main branch; each is a folder.
struct Repository {
  struct Commit {
    std::string name;
    std::string folder;
    std::string etag;
    bool is_dropped = false;
  };

  work::Downloaded answer(const work::Download& download) const {
    const Commit* commit = &commits.back();
    for (const Commit& one : commits) {
      if (download.url.find("/resolve/" + one.name + "/") != std::string::npos) commit = &one;
    }
    if (commit->is_dropped) return {.status = 404};
    work::Downloaded answer = serve(commit->folder, download);
    if (answer.status == 206) answer.version = commit->etag;
    answer.commit = commit->name;
    return answer;
  }

  std::vector<Commit> commits;
};

/// Lets every publication from a certain one on fail, until told otherwise.
struct FullDisk {
  std::size_t room = SIZE_MAX;

  NodeWorld::Setup setup() {
    NodeWorld::Setup setup;
    setup.store_fault = [this](const work::StoreOp& op) -> Status {
      if (!std::holds_alternative<work::PublishBlob>(op)) return {};
      if (room == 0) return fail(ErrorCode::no_space, "disk", "is full");
      --room;
      return {};
    };
    return setup;
  }
};

rpc::PrepareExpertsCall call_for(const std::string& source) {
  const auto type = tensor::WeightType::q8_0;
  return {.model = "toy",
          .layer = 0,
          .quant = rpc::QuantPlan{type, type, type, "\"q8_0\""},
          .source = source};
}

rpc::PrepareStatusAnswer status_of(NodeWorld& world, const std::string& id) {
  return expect_answer<rpc::PrepareStatusAnswer>(world.call(rpc::PrepareStatusCall{id}));
}

rpc::PrepareStatusAnswer run(NodeWorld& world, const rpc::PrepareExpertsCall& call) {
  const auto started = expect_answer<rpc::PrepareStartedAnswer>(world.call(call));
  return status_of(world, started.job_id);
}

rpc::PrepareStatusAnswer resume(NodeWorld& world, const std::string& id) {
  EXPECT_TRUE(world.call(rpc::PrepareResumeCall{id}));
  return status_of(world, id);
}

std::vector<std::string> uris_of(const rpc::PrepareStatusAnswer& status) {
  std::vector<std::string> uris;
  for (const rpc::PreparedBlob& blob : status.experts) uris.push_back(blob.uri);
  for (const rpc::PreparedBlob& gate : status.gates) uris.push_back(gate.uri);
  return uris;
}

std::vector<std::string> uris_of_folder(const std::string& folder) {
  NodeWorld world;
  return uris_of(run(world, call_for(folder)));
}

Repository::Commit commit_of(char digit, const CheckpointFolder& folder, const std::string& etag) {
  return {.name = std::string(40, digit), .folder = folder.path(), .etag = etag};
}

TEST(PrepareCommits, OfAHubAJobReadsTheCommitItBeganWithWhateverIsPushedMeanwhile) {
  const CheckpointFolder before(Shape{.experts = 6});
  const CheckpointFolder after(Shape{.experts = 7});
  Repository repository{{commit_of('a', before, "\"a\"")}};
  NodeWorld world;
  std::size_t answers = 0;
  world.web = [&](const work::Download& download) {
    const work::Downloaded answer = repository.answer(download);
    if (++answers == 1) repository.commits.push_back(commit_of('b', after, "\"b\""));
    return answer;
  };
  const rpc::PrepareStatusAnswer status = run(world, call_for(kHub));
  ASSERT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(uris_of(status), uris_of_folder(before.path()));
}

TEST(PrepareCommits, AFailedJobIsResumedAtItsCommitAndMakesTheRestOfIt) {
  const CheckpointFolder before(Shape{.experts = 6});
  const CheckpointFolder after(Shape{.experts = 7});
  for (const bool restarts : {false, true}) {
    Repository repository{{commit_of('a', before, "\"a\"")}};
    FullDisk disk{.room = 3};
    NodeWorld world(disk.setup());
    world.web = [&](const work::Download& download) { return repository.answer(download); };
    const std::string id = run(world, call_for(kHub)).job_id;
    ASSERT_EQ(status_of(world, id).state, PrepareState::failed);
    repository.commits.push_back(commit_of('b', after, "\"b\""));
    disk.room = SIZE_MAX;
    if (restarts) world.restart();
    const rpc::PrepareStatusAnswer resumed = resume(world, id);
    ASSERT_EQ(resumed.state, PrepareState::completed) << resumed.error.value_or("");
    EXPECT_EQ(uris_of(resumed), uris_of_folder(before.path()));
  }
}

TEST(PrepareCommits, AJobOfWhichNothingIsPublishedIsResumedAtWhatThereIsNow) {
  const CheckpointFolder before(Shape{.experts = 6});
  const CheckpointFolder after(Shape{.experts = 7});
  Repository repository{{commit_of('a', before, "\"a\"")}};
  FullDisk disk{.room = 0};
  NodeWorld world(disk.setup());
  world.web = [&](const work::Download& download) { return repository.answer(download); };
  const std::string id = run(world, call_for(kHub)).job_id;
  repository.commits.push_back(commit_of('b', after, "\"b\""));
  disk.room = SIZE_MAX;
  const rpc::PrepareStatusAnswer resumed = resume(world, id);
  ASSERT_EQ(resumed.state, PrepareState::completed) << resumed.error.value_or("");
  EXPECT_EQ(uris_of(resumed), uris_of_folder(after.path()));
}

TEST(PrepareCommits, AJobWhoseCommitTheHubDroppedSaysThatANewOneIsNeeded) {
  const CheckpointFolder folder(Shape{.experts = 6});
  Repository repository{{commit_of('a', folder, "\"a\"")}};
  FullDisk disk{.room = 3};
  NodeWorld world(disk.setup());
  world.web = [&](const work::Download& download) { return repository.answer(download); };
  const std::string id = run(world, call_for(kHub)).job_id;
  repository.commits.front().is_dropped = true;
  repository.commits.push_back(commit_of('b', folder, "\"b\""));
  disk.room = SIZE_MAX;
  const rpc::PrepareStatusAnswer resumed = resume(world, id);
  EXPECT_EQ(resumed.state, PrepareState::failed);
  EXPECT_THAT(resumed.error.value_or(""), HasSubstr("where the server dropped it, only a new job"));
  EXPECT_EQ(run(world, call_for(kHub)).state, PrepareState::completed);
}

TEST(PrepareCommits, WhereNoCommitCanBeAskedForTheSameFilesOfAnotherOneDo) {
  const CheckpointFolder folder(Shape{.experts = 6});
  const CheckpointFolder other(Shape{.experts = 7});
  for (const bool is_same : {true, false}) {
    Repository repository{{commit_of('a', folder, "\"a\"")}};
    FullDisk disk{.room = 3};
    NodeWorld world(disk.setup());
    world.web = [&](const work::Download& download) { return repository.answer(download); };
    const std::string id = run(world, call_for(kOther)).job_id;
    ASSERT_EQ(status_of(world, id).state, PrepareState::failed);
    repository.commits = {is_same ? commit_of('b', folder, "\"a\"")
                                  : commit_of('b', other, "\"b\"")};
    disk.room = SIZE_MAX;
    const rpc::PrepareStatusAnswer resumed = resume(world, id);
    if (is_same) {
      ASSERT_EQ(resumed.state, PrepareState::completed) << resumed.error.value_or("");
      EXPECT_EQ(uris_of(resumed), uris_of_folder(folder.path()));
    } else {
      EXPECT_EQ(resumed.state, PrepareState::failed);
      EXPECT_THAT(resumed.error.value_or(""), HasSubstr("was changed since the job began"));
      EXPECT_THAT(resumed.error.value_or(""), HasSubstr("start a new one"));
    }
  }
}

}  // namespace
}  // namespace tenzro::testing
