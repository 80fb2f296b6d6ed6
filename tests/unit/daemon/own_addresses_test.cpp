#include "own_addresses.hpp"

#include <gtest/gtest.h>

namespace tenzro::daemon {
namespace {

using Addresses = std::vector<std::string>;

const HostAddresses kHost{.ipv4 = {"10.0.0.7", "192.168.1.2"}, .ipv6 = {"[2001:db8::7]"}};

TEST(OwnAddressesTest, BoundAddressIsAnnouncedAsItIs) {
  EXPECT_EQ(reachable_addresses("10.0.0.9:9001", kHost), Addresses{"10.0.0.9:9001"});
  EXPECT_EQ(reachable_addresses("[::1]:9001", kHost), Addresses{"[::1]:9001"});
}

TEST(OwnAddressesTest, WildcardIsAnnouncedAsEveryAddressItTakesAndNotAsLoopback) {
  EXPECT_EQ(reachable_addresses("0.0.0.0:9001", kHost),
            (Addresses{"10.0.0.7:9001", "192.168.1.2:9001"}));
  EXPECT_EQ(reachable_addresses("[::]:9001", kHost),
            (Addresses{"10.0.0.7:9001", "192.168.1.2:9001", "[2001:db8::7]:9001"}));
}

TEST(OwnAddressesTest, LoopbackIsAnnouncedWhereThereIsNoOther) {
  EXPECT_EQ(reachable_addresses("0.0.0.0:9001", {}), Addresses{"127.0.0.1:9001"});
  EXPECT_EQ(reachable_addresses("0.0.0.0:9001", {.ipv4 = {}, .ipv6 = {"[2001:db8::7]"}}),
            Addresses{"127.0.0.1:9001"});
}

TEST(OwnAddressesTest, NoMoreAreAnnouncedThanARecordCarries) {
  HostAddresses many;
  for (int i = 0; i < 40; ++i) many.ipv4.push_back("10.0.0." + std::to_string(i));
  EXPECT_EQ(reachable_addresses("[::]:9001", many).size(), 8U);
}

TEST(OwnAddressesTest, AddressesOfThisMachineAreNeitherLoopbackNorLinkLocal) {
  const HostAddresses host = host_addresses();
  for (const std::string& ip : host.ipv4) EXPECT_FALSE(ip.starts_with("127.")) << ip;
  for (const std::string& ip : host.ipv6) EXPECT_FALSE(ip.starts_with("[fe8")) << ip;
}

}  // namespace
}  // namespace tenzro::daemon
