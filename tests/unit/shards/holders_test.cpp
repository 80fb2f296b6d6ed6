#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/shards/view.hpp"

namespace tenzro::shards {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProviderAddress address_of(std::uint8_t number) {
  ProviderAddress address{};
  address.fill(number);
  return address;
}

View two_holders() {
  View view{Options{}};
  for (std::uint8_t number = 1; number <= 2; ++number)
    view.set_provider({.address = address_of(number)});
  BlobHash blob{};
  blob.fill(7);
  view.declare(address_of(1), {"m", 0, 0}, {.blob = blob});
  view.declare(address_of(2), {"other", 5, 6}, {.blob = blob});
  view.declare(address_of(2), {"other", 5, 7}, {.blob = blob});
  return view;
}

TEST(Holders, OfABlobAreFoundOnceEachUnderWhateverExpert) {
  const View view = two_holders();
  BlobHash blob{};
  blob.fill(7);
  EXPECT_THAT(view.holders_of(blob, 100), ElementsAre(&view.providers().at(address_of(1)),
                                                      &view.providers().at(address_of(2))));
  blob.fill(8);
  EXPECT_THAT(view.holders_of(blob, 100), IsEmpty());
}

TEST(Holders, SearchIsBounded) {
  const View view = two_holders();
  BlobHash blob{};
  blob.fill(7);
  EXPECT_THAT(view.holders_of(blob, 0), IsEmpty());
  EXPECT_THAT(view.holders_of(blob, 1), ElementsAre(&view.providers().at(address_of(1))));
}

}  // namespace
}  // namespace tenzro::shards
