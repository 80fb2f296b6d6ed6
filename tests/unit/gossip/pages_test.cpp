// Pages of manifests are asked for until they are here, and whoever waits for one hears of it,
// wherever it came from.
#include <algorithm>
#include <chrono>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lone_node.hpp"

namespace tenzro::gossip {
namespace {

using std::chrono::seconds;
using tenzro::testing::LoneNode;
using tenzro::testing::Player;
using ::testing::Contains;
using ::testing::Not;

/// Two holders of the same experts, whose manifests are the same bytes.
class TwoHoldersOfTheSame : public ::testing::Test {
 protected:
  TwoHoldersOfTheSame() {
    node.meet(b);
    node.meet(c);
    node.calls.clear();
    node.want_pages(b, wish);
    node.want_pages(c, wish);
    node.run_for(std::chrono::milliseconds(100));
  }

  /// The newest call to that holder that asks for pages.
  [[nodiscard]] std::optional<SendCall> asked(const Player& holder) const {
    const auto call = std::find_if(node.calls.rbegin(), node.calls.rend(), [&](const auto& made) {
      return made.target.id == holder.key.public_key() &&
             !LoneNode::said(made).pages_wanted.empty();
    });
    return call == node.calls.rend() ? std::nullopt : std::optional(*call);
  }

  /// What it is asked for, as a holder gives it.
  void serve(const Player& holder) {
    const auto call = asked(holder);
    ASSERT_TRUE(call) << "no page is asked of " << holder.address;
    wire::GossipMessage reply;
    for (const Hash32& name : LoneNode::said(*call).pages_wanted) {
      for (const wire::Bytes& bytes : {table, page}) {
        if (page_name(bytes) == name) reply.pages.push_back(bytes);
      }
    }
    node.answer(*call, work::CallReply{holder.key.public_key(), wire::encode_gossip(reply)});
    node.run_for(std::chrono::milliseconds(100));
  }

  void lose(const Player& holder) {
    const auto call = asked(holder);
    ASSERT_TRUE(call) << "no page is asked of " << holder.address;
    node.answer(*call, fail(ErrorCode::io, "", "unreachable"));
  }

  [[nodiscard]] const wire::Bytes* page_of(const Player& holder) {
    return node.core().manifests().page(holder.key.address(), 0);
  }

  wire::Bytes page = wire::Bytes(64, 7);
  wire::Bytes table = make_table({page});
  Manifests::Wish wish{.root = page_name(table), .pages = 1, .places = {0}};
  LoneNode node;
  Player b{2};
  Player c{3};
};

TEST_F(TwoHoldersOfTheSame, LostCallIsMadeAgain) {
  lose(b);
  node.calls.clear();
  node.run_for(seconds(3));
  serve(b);
  serve(b);
  ASSERT_NE(page_of(b), nullptr);
  EXPECT_THAT(node.arrived, Contains(b.key.address()));
}

TEST_F(TwoHoldersOfTheSame, CallsThatFailElsewhereDoNotPutItOff) {
  lose(b);
  node.run_for(seconds(1));
  lose(c);
  node.calls.clear();
  node.run_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(asked(b)) << "two seconds after its own failure";
  EXPECT_FALSE(asked(c));
}

TEST_F(TwoHoldersOfTheSame, PagesThatTheOtherBroughtAreSaidToBeHereAfterALostCall) {
  lose(c);
  serve(b);
  serve(b);
  ASSERT_EQ(page_of(c), page_of(b)) << "one page, kept once";
  node.calls.clear();
  node.arrived.clear();
  node.run_for(seconds(3));
  EXPECT_THAT(node.arrived, Contains(c.key.address()));
  EXPECT_FALSE(asked(c));
}

TEST_F(TwoHoldersOfTheSame, PagesThatAreHereAlreadyAreNotAskedForAgain) {
  serve(b);
  serve(b);
  const Player late(4);
  node.meet(late);
  node.calls.clear();
  node.arrived.clear();
  node.want_pages(late, wish);
  node.run_for(seconds(3));
  EXPECT_THAT(node.arrived, Contains(late.key.address()));
  EXPECT_FALSE(asked(late));
}

TEST_F(TwoHoldersOfTheSame, WhatAHolderDidNotHaveYetIsAskedForWithItsNextRecord) {
  const auto call = asked(b);
  ASSERT_TRUE(call);
  node.answer(*call, work::CallReply{b.key.public_key(), wire::encode_gossip({})});
  lose(c);
  node.calls.clear();
  node.run_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(asked(b)) << "not before it says something new";
  node.want_pages(b, wish);
  node.run_for(std::chrono::milliseconds(100));
  serve(b);
  serve(b);
  ASSERT_NE(page_of(b), nullptr);
  node.calls.clear();
  node.want_pages(b, wish);
  node.run_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(asked(b)) << "all of it is here";
}

TEST_F(TwoHoldersOfTheSame, WhatAHolderDidNotHaveIsNoticedWhereAnotherBringsItLater) {
  const auto call = asked(c);
  ASSERT_TRUE(call);
  node.answer(*call, work::CallReply{c.key.public_key(), wire::encode_gossip({})});
  serve(b);
  serve(b);
  node.arrived.clear();
  node.run_for(Options{}.membership.heartbeat + seconds(1));
  EXPECT_THAT(node.arrived, Contains(c.key.address()));
}

TEST_F(TwoHoldersOfTheSame, WhoIsNoLongerOfInterestIsNotAskedAndNothingIsSaid) {
  lose(b);
  node.want_pages(b, {});
  node.calls.clear();
  node.arrived.clear();
  node.run_for(seconds(5));
  EXPECT_FALSE(asked(b));
  EXPECT_THAT(node.arrived, Not(Contains(b.key.address())));
}

TEST_F(TwoHoldersOfTheSame, ForgedPageIsNotTakenAndNothingIsSaid) {
  const auto call = asked(b);
  ASSERT_TRUE(call);
  wire::GossipMessage reply;
  reply.pages = {wire::Bytes(64, 8)};
  node.arrived.clear();
  node.answer(*call, work::CallReply{b.key.public_key(), wire::encode_gossip(reply)});
  node.run_for(std::chrono::milliseconds(100));
  EXPECT_EQ(node.core().manifests().find(page_name(reply.pages.front())), nullptr);
  EXPECT_THAT(node.arrived, Not(Contains(b.key.address())));
}

}  // namespace
}  // namespace tenzro::gossip
