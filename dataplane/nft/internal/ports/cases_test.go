// SPDX-License-Identifier: Apache-2.0

package ports_test

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/ports"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The node of the cases: ports of one bridge.
//
//	veth1  endpoint with a known MAC address
//	veth2  endpoint without
//	tap3   endpoint that must not have any traffic
//	veth9  has the prefix, but no endpoint
//	eth0   uplink
func config() ports.Config { return ports.Config{Table: "wayleave", InterfacePrefix: "veth"} }

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, addr(text))
	}
	return out
}

func mac(last byte) nfttest.MAC { return nfttest.MAC{2, 0, 0, 0, 0, last} }

// allPorts returns the ports of endpoints.
func allPorts() map[string]ports.Port {
	return map[string]ports.Port{
		"veth1": {Addresses: addrs("10.0.0.1", "10.0.0.9", "fd00::1"), MAC: ports.MAC(mac(1))},
		"veth2": {Addresses: addrs("10.0.0.2", "fd00::2")},
		"tap3":  {Addresses: addrs("10.0.0.3", "fd00::3"), MAC: ports.MAC(mac(3)), Drop: true},
	}
}

// node returns the table with these ports.
func node(cfg ports.Config, all map[string]ports.Port) *ruleset.Table {
	return ports.Table(cfg, all, addrs("10.0.0.254", "fd00::254", "fe80::b0"))
}

// frameCase is a frame that a port receives, and whether the bridge gets it.
type frameCase struct {
	name, port string
	frame      []byte
	passes     bool
}

// cases collects frames.
type cases []frameCase

// all returns all cases.
func all() cases {
	var c cases
	c.arp()
	c.ipv4()
	c.ethernet()
	c.ipv6()
	c.discovery()
	c.fragments()
	c.uplink()
	return c
}

// from returns functions that add a frame of a port: one that passes, and one that drops.
func (c *cases) from(port string, src nfttest.MAC) (passes, drops func(name string, etherType uint16, payload []byte)) {
	add := func(passes bool) func(string, uint16, []byte) {
		return func(name string, etherType uint16, payload []byte) {
			c.add(name, port, nfttest.Ether(nfttest.Broadcast(), src, nil, etherType, payload), passes)
		}
	}
	return add(true), add(false)
}

func (c *cases) add(name, port string, frame []byte, passes bool) {
	*c = append(*c, frameCase{port + ": " + name, port, frame, passes})
}

func (c *cases) arp() {
	own, other, peer, none := addr("10.0.0.1"), addr("10.0.0.2"), addr("10.0.0.7"), netip.IPv4Unspecified()
	passes, drops := c.from("veth1", mac(1))
	passes("request", nfttest.EtherARP, nfttest.ARP(false, mac(1), own, peer))
	passes("reply", nfttest.EtherARP, nfttest.ARP(true, mac(1), own, peer))
	passes("request from the second address", nfttest.EtherARP, nfttest.ARP(false, mac(1), addr("10.0.0.9"), peer))
	passes("probe for an own address", nfttest.EtherARP, nfttest.ARP(false, mac(1), none, own))
	drops("probe for the address of another", nfttest.EtherARP, nfttest.ARP(false, mac(1), none, other))
	drops("request of another for an own address", nfttest.EtherARP, nfttest.ARP(false, mac(1), other, own))
	drops("request from the address of another", nfttest.EtherARP, nfttest.ARP(false, mac(1), other, peer))
	drops("reply with the address of another", nfttest.EtherARP, nfttest.ARP(true, mac(1), other, peer))
	drops("reply with the address of the host", nfttest.EtherARP, nfttest.ARP(true, mac(1), addr("10.0.0.254"), peer))
	drops("sender has another MAC address", nfttest.EtherARP, nfttest.ARP(true, mac(2), own, peer))
	drops("probe with another MAC address", nfttest.EtherARP, nfttest.ARP(false, mac(2), none, own))
	long := nfttest.ARP(false, mac(1), own, peer)
	long[4] = 8
	drops("of longer link-layer addresses", nfttest.EtherARP, long)
	long = nfttest.ARP(false, mac(1), own, peer)
	long[5] = 16
	drops("of longer protocol addresses", nfttest.EtherARP, long)
	_, drops = c.from("veth1", mac(2))
	drops("ARP in a frame of another MAC address", nfttest.EtherARP, nfttest.ARP(false, mac(1), own, peer))
	passes, drops = c.from("veth2", mac(9))
	passes("ARP without a known MAC address", nfttest.EtherARP, nfttest.ARP(false, mac(8), other, peer))
	drops("ARP of another without a known MAC address", nfttest.EtherARP, nfttest.ARP(false, mac(9), own, peer))
	_, drops = c.from("tap3", mac(3))
	drops("ARP of a port that drops", nfttest.EtherARP, nfttest.ARP(false, mac(3), addr("10.0.0.3"), peer))
	_, drops = c.from("veth9", mac(9))
	drops("ARP without an endpoint", nfttest.EtherARP, nfttest.ARP(false, mac(9), addr("10.0.0.77"), peer))
}

func (c *cases) ipv4() {
	const udp, tcp = 17, 6
	own, other, peer, none := addr("10.0.0.1"), addr("10.0.0.2"), addr("10.0.0.7"), netip.IPv4Unspecified()
	everybody := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	data := nfttest.UDP(4000, 4001, nil)
	passes, drops := c.from("veth1", mac(1))
	passes("own address", nfttest.EtherIPv4, nfttest.IP(own, peer, udp, data))
	passes("second address", nfttest.EtherIPv4, nfttest.IP(addr("10.0.0.9"), peer, udp, data))
	passes("DHCP request", nfttest.EtherIPv4, nfttest.IP(none, everybody, udp, nfttest.UDP(68, 67, nil)))
	drops("DHCP reply", nfttest.EtherIPv4, nfttest.IP(none, everybody, udp, nfttest.UDP(67, 68, nil)))
	drops("no source, to the client", nfttest.EtherIPv4, nfttest.IP(none, everybody, udp, nfttest.UDP(68, 68, nil)))
	drops("no source, from the server", nfttest.EtherIPv4, nfttest.IP(none, everybody, udp, nfttest.UDP(67, 67, nil)))
	drops("no source, TCP", nfttest.EtherIPv4, nfttest.IP(none, peer, tcp, nfttest.UDP(68, 67, make([]byte, 20))))
	drops("address of another", nfttest.EtherIPv4, nfttest.IP(other, peer, udp, data))
	drops("address of the host", nfttest.EtherIPv4, nfttest.IP(addr("10.0.0.254"), peer, udp, data))
	drops("address without an endpoint", nfttest.EtherIPv4, nfttest.IP(addr("192.0.2.1"), peer, udp, data))
	drops("DHCP request from the address of another", nfttest.EtherIPv4,
		nfttest.IP(other, everybody, udp, nfttest.UDP(68, 67, nil)))
	_, drops = c.from("veth1", mac(2))
	drops("IPv4 in a frame of another MAC address", nfttest.EtherIPv4, nfttest.IP(own, peer, udp, data))
	drops("DHCP in a frame of another MAC address", nfttest.EtherIPv4,
		nfttest.IP(none, everybody, udp, nfttest.UDP(68, 67, nil)))
	passes, drops = c.from("veth2", mac(9))
	passes("IPv4 without a known MAC address", nfttest.EtherIPv4, nfttest.IP(other, peer, udp, data))
	drops("IPv4 of another without a known MAC address", nfttest.EtherIPv4, nfttest.IP(own, peer, udp, data))
	drops("second address of another", nfttest.EtherIPv4, nfttest.IP(addr("10.0.0.9"), peer, udp, data))
	_, drops = c.from("tap3", mac(3))
	drops("IPv4 of a port that drops", nfttest.EtherIPv4, nfttest.IP(addr("10.0.0.3"), peer, udp, data))
	_, drops = c.from("veth9", mac(9))
	drops("IPv4 without an endpoint", nfttest.EtherIPv4, nfttest.IP(addr("10.0.0.77"), peer, udp, data))
	drops("DHCP without an endpoint", nfttest.EtherIPv4,
		nfttest.IP(none, everybody, udp, nfttest.UDP(68, 67, nil)))
}

// ethernet adds frames of other protocols, and of VLANs.
func (c *cases) ethernet() {
	_, drops := c.from("veth1", mac(1))
	drops("PPPoE", 0x8864, make([]byte, 46))
	drops("LLC", 46, make([]byte, 46))
	drops("EtherType for experiments", 0x88b5, make([]byte, 46))
	own := nfttest.IP(addr("10.0.0.1"), addr("10.0.0.7"), 17, nfttest.UDP(4000, 4001, nil))
	own6 := nfttest.IP(addr("fd00::1"), addr("fd00::7"), 17, nfttest.UDP(4000, 4001, nil))
	arp := nfttest.ARP(false, mac(1), addr("10.0.0.1"), addr("10.0.0.7"))
	for name, tags := range map[string][][2]uint16{
		"priority tag":          {{nfttest.EtherVLAN, 0}},
		"VLAN tag":              {{nfttest.EtherVLAN, 7}},
		"provider tag":          {{0x88a8, 0}},
		"two priority tags":     {{nfttest.EtherVLAN, 0}, {nfttest.EtherVLAN, 0}},
		"two tags":              {{0x88a8, 7}, {nfttest.EtherVLAN, 8}},
		"priority tag with PCP": {{nfttest.EtherVLAN, 0xe000}},
	} {
		for kind, f := range map[string][]byte{
			"IPv4": nfttest.Ether(nfttest.Broadcast(), mac(1), tags, nfttest.EtherIPv4, own),
			"IPv6": nfttest.Ether(nfttest.Broadcast(), mac(1), tags, nfttest.EtherIPv6, own6),
			"ARP":  nfttest.Ether(nfttest.Broadcast(), mac(1), tags, nfttest.EtherARP, arp),
		} {
			c.add(kind+" behind "+name, "veth1", f, false)
		}
	}
	passes, _ := c.from("eth0", mac(9))
	passes("EtherType for experiments", 0x88b5, make([]byte, 46))
}

func (c *cases) ipv6() {
	const udp = 17
	own, other, peer, none := addr("fd00::1"), addr("fd00::2"), addr("fd00::7"), netip.IPv6Unspecified()
	data := nfttest.UDP(4000, 4001, nil)
	passes, drops := c.from("veth1", mac(1))
	passes("own address", nfttest.EtherIPv6, nfttest.IP(own, peer, udp, data))
	passes("own address behind options", nfttest.EtherIPv6, nfttest.IP(own, peer, 60, nfttest.Extended(udp, data)))
	passes("link-local address", nfttest.EtherIPv6, nfttest.IP(addr("fe80::1"), peer, udp, data))
	passes("last link-local address", nfttest.EtherIPv6, nfttest.IP(
		addr("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), peer, udp, data))
	drops("after the link-local addresses", nfttest.EtherIPv6, nfttest.IP(addr("fec0::"), peer, udp, data))
	drops("address of another", nfttest.EtherIPv6, nfttest.IP(other, peer, udp, data))
	drops("address of another behind options", nfttest.EtherIPv6, nfttest.IP(
		other, peer, 60, nfttest.Extended(udp, data)))
	drops("address of the host", nfttest.EtherIPv6, nfttest.IP(addr("fd00::254"), peer, udp, data))
	drops("link-local address of the host", nfttest.EtherIPv6, nfttest.IP(addr("fe80::b0"), peer, udp, data))
	drops("no source", nfttest.EtherIPv6, nfttest.IP(none, peer, udp, data))
	drops("no transport header", nfttest.EtherIPv6, nfttest.IP(own, peer, 60, nil))
	_, drops = c.from("veth1", mac(2))
	drops("IPv6 in a frame of another MAC address", nfttest.EtherIPv6, nfttest.IP(own, peer, udp, data))
	passes, drops = c.from("veth2", mac(9))
	passes("IPv6 without a known MAC address", nfttest.EtherIPv6, nfttest.IP(other, peer, udp, data))
	drops("IPv6 of another without a known MAC address", nfttest.EtherIPv6, nfttest.IP(own, peer, udp, data))
	_, drops = c.from("tap3", mac(3))
	drops("IPv6 of a port that drops", nfttest.EtherIPv6, nfttest.IP(addr("fd00::3"), peer, udp, data))
	drops("link-local address of a port that drops", nfttest.EtherIPv6, nfttest.IP(addr("fe80::3"), peer, udp, data))
	_, drops = c.from("veth9", mac(9))
	drops("IPv6 without an endpoint", nfttest.EtherIPv6, nfttest.IP(addr("fe80::9"), peer, udp, data))
}

// message returns a packet of neighbour discovery.
func message(src netip.Addr, typ uint8, target netip.Addr) []byte {
	to := addr("ff02::1")
	return nfttest.IP(src, to, 58, nfttest.ICMPv6(src, to, typ, target.AsSlice()))
}

func (c *cases) discovery() {
	own, other, local, none := addr("fd00::1"), addr("fd00::2"), addr("fe80::1"), netip.IPv6Unspecified()
	host, router, peer := addr("fe80::b0"), addr("fd00::254"), addr("fd00::7")
	passes, drops := c.from("veth1", mac(1))
	const echo, report, done, report2 = 128, 131, 132, 143
	v6 := nfttest.EtherIPv6
	passes("echo", v6, message(own, echo, peer))
	passes("solicitation of a neighbour", v6, message(own, nfttest.TypeSolicitation, peer))
	passes("solicitation from a link-local address", v6, message(local, nfttest.TypeSolicitation, other))
	passes("advertisement of an own address", v6, message(own, nfttest.TypeAdvertisement, own))
	passes("advertisement from a link-local address", v6, message(local, nfttest.TypeAdvertisement, own))
	passes("advertisement of a link-local address", v6, message(local, nfttest.TypeAdvertisement, local))
	passes("duplicate address detection", v6, message(none, nfttest.TypeSolicitation, own))
	passes("detection of a link-local address", v6, message(none, nfttest.TypeSolicitation, local))
	passes("router solicitation", v6, message(local, nfttest.TypeRouterSolicitation, local))
	passes("router solicitation without a source", v6, message(none, nfttest.TypeRouterSolicitation, local))
	passes("report without a source", v6, message(none, report2, local))
	passes("first version's report without a source", v6, message(none, report, local))
	passes("report", v6, message(local, report2, local))
	drops("end of listening without a source", v6, message(none, done, local))
	drops("echo without a source", v6, message(none, echo, peer))
	drops("detection of the address of another", v6, message(none, nfttest.TypeSolicitation, other))
	drops("router solicitation of another", v6, message(other, nfttest.TypeRouterSolicitation, local))
	drops("solicitation of another for an own address", v6, message(other, nfttest.TypeSolicitation, own))
	drops("detection of the host's address", v6, message(none, nfttest.TypeSolicitation, router))
	drops("detection of the host's link-local address", v6, message(none, nfttest.TypeSolicitation, host))
	drops("advertisement of the address of another", v6, message(own, nfttest.TypeAdvertisement, other))
	drops("advertisement of another from a link-local one", v6, message(local, nfttest.TypeAdvertisement, other))
	drops("advertisement of the host's address", v6, message(own, nfttest.TypeAdvertisement, router))
	drops("advertisement of the host's link-local address", v6, message(own, nfttest.TypeAdvertisement, host))
	drops("advertisement without a source", v6, message(none, nfttest.TypeAdvertisement, own))
	drops("router advertisement", v6, message(local, nfttest.TypeRouterAdvertisement, local))
	drops("router advertisement from an own address", v6, message(own, nfttest.TypeRouterAdvertisement, own))
	drops("redirect", v6, message(local, nfttest.TypeRedirect, peer))
	drops("redirect from the host", v6, message(host, nfttest.TypeRedirect, peer))
	drops("advertisement without a target", v6, nfttest.IP(own, peer, 58,
		nfttest.ICMPv6(own, peer, nfttest.TypeAdvertisement, nil)))
	behind := func(typ uint8, target netip.Addr) []byte {
		return nfttest.IP(own, peer, 60, nfttest.Extended(58, nfttest.ICMPv6(own, peer, typ, target.AsSlice())))
	}
	passes("advertisement behind options", v6, behind(nfttest.TypeAdvertisement, own))
	drops("advertisement of another behind options", v6, behind(nfttest.TypeAdvertisement, other))
	drops("router advertisement behind options", v6, behind(nfttest.TypeRouterAdvertisement, own))
	passes, drops = c.from("veth2", mac(9))
	passes("advertisement without a known MAC address", v6, message(other, nfttest.TypeAdvertisement, other))
	drops("advertisement of the first port's address", v6, message(other, nfttest.TypeAdvertisement, own))
	drops("detection of the first port's address", v6, message(none, nfttest.TypeSolicitation, own))
}

func (c *cases) fragments() {
	const udp = 17
	own, peer, none := addr("fd00::1"), addr("fd00::7"), netip.IPv6Unspecified()
	passes, drops := c.from("veth1", mac(1))
	piece := func(src netip.Addr, protocol uint8, offset uint16, payload []byte) []byte {
		return nfttest.IP(src, peer, 44, nfttest.Fragment(protocol, offset, offset == 0, payload))
	}
	discovery := func(typ uint8, target netip.Addr) []byte { return nfttest.ICMPv6(own, peer, typ, target.AsSlice()) }
	v6 := nfttest.EtherIPv6
	passes("first fragment of UDP", v6, piece(own, udp, 0, nfttest.UDP(4000, 4001, make([]byte, 8))))
	passes("later fragment of UDP", v6, piece(own, udp, 2, make([]byte, 8)))
	passes("first fragment of an echo", v6, piece(own, 58, 0, discovery(128, peer)))
	passes("later fragment of an echo", v6, piece(own, 58, 3, slices.Repeat([]byte{nfttest.TypeAdvertisement}, 24)))
	drops("later fragment of another", v6, piece(addr("fd00::2"), udp, 2, make([]byte, 8)))
	drops("advertisement in fragments", v6, piece(own, 58, 0, discovery(nfttest.TypeAdvertisement, own)))
	drops("solicitation in fragments", v6, piece(own, 58, 0, discovery(nfttest.TypeSolicitation, peer)))
	drops("router advertisement in fragments", v6, piece(own, 58, 0, discovery(nfttest.TypeRouterAdvertisement, own)))
	drops("router solicitation in fragments", v6, piece(own, 58, 0, discovery(nfttest.TypeRouterSolicitation, own)))
	drops("redirect in fragments", v6, piece(own, 58, 0, discovery(nfttest.TypeRedirect, own)))
	drops("first fragment of eight bytes", v6, piece(own, 58, 0, discovery(nfttest.TypeAdvertisement, own)[:8]))
	drops("later fragment of options", v6, piece(own, 60, 2, make([]byte, 8)))
	drops("fragment without a source", v6, piece(none, 58, 0, discovery(nfttest.TypeSolicitation, own)))
	drops("report in fragments without a source", v6, piece(none, 58, 0, discovery(143, own)))
	whole := nfttest.Fragment(58, 0, false, discovery(nfttest.TypeAdvertisement, own))
	drops("advertisement with a fragment header", v6, nfttest.IP(own, peer, 44, whole))
	last := nfttest.Extended(58, discovery(nfttest.TypeRouterAdvertisement, own))
	drops("options after the fragment header", v6, piece(own, 60, 0, last))
	drops("fragment that ends in options", v6, piece(own, 60, 0, []byte{58, 3, 1, 4, 0, 0, 0, 0}))
}

func (c *cases) uplink() {
	own, own6, down := addr("10.0.0.1"), addr("fd00::1"), addr("10.0.0.3")
	peer, peer6, local, none := addr("10.0.0.7"), addr("fd00::7"), addr("fe80::7"), netip.IPv6Unspecified()
	data := nfttest.UDP(4000, 4001, nil)
	passes, drops := c.from("eth0", mac(9))
	v4, v6 := nfttest.EtherIPv4, nfttest.EtherIPv6
	passes("neighbour's IPv4", v4, nfttest.IP(peer, own, 17, data))
	passes("neighbour's IPv6", v6, nfttest.IP(peer6, own6, 17, data))
	passes("neighbour's ARP", nfttest.EtherARP, nfttest.ARP(true, mac(9), peer, own))
	passes("probe for the address of an endpoint", nfttest.EtherARP,
		nfttest.ARP(false, mac(9), netip.IPv4Unspecified(), own))
	passes("neighbour's advertisement", v6, message(peer6, nfttest.TypeAdvertisement, peer6))
	passes("neighbour's solicitation", v6, message(peer6, nfttest.TypeSolicitation, own6))
	passes("neighbour's detection", v6, message(none, nfttest.TypeSolicitation, peer6))
	passes("router advertisement", v6, message(local, nfttest.TypeRouterAdvertisement, local))
	passes("redirect", v6, message(local, nfttest.TypeRedirect, peer6))
	drops("IPv4 of an endpoint", v4, nfttest.IP(own, peer, 17, data))
	drops("IPv4 of an endpoint's second address", v4, nfttest.IP(addr("10.0.0.9"), peer, 17, data))
	drops("IPv6 of an endpoint without a MAC address", v6, nfttest.IP(addr("fd00::2"), peer6, 17, data))
	drops("IPv6 of an endpoint that drops", v6, nfttest.IP(addr("fd00::3"), peer6, 17, data))
	drops("IPv4 of an endpoint that drops", v4, nfttest.IP(down, peer, 17, data))
	drops("IPv4 of an endpoint without a MAC address", v4, nfttest.IP(addr("10.0.0.2"), peer, 17, data))
	drops("IPv6 of an endpoint", v6, nfttest.IP(own6, peer6, 17, data))
	drops("ARP of an endpoint", nfttest.EtherARP, nfttest.ARP(true, mac(1), own, peer))
	drops("advertisement of an endpoint's address", v6, message(peer6, nfttest.TypeAdvertisement, own6))
	drops("detection of an endpoint's address", v6, message(none, nfttest.TypeSolicitation, own6))
	passes("report without a source", v6, message(none, 143, own6))
	behind := nfttest.Extended(58, nfttest.ICMPv6(peer6, own6, nfttest.TypeAdvertisement, own6.AsSlice()))
	drops("advertisement of an endpoint behind options", v6, nfttest.IP(peer6, own6, 60, behind))
	short := nfttest.ICMPv6(peer6, own6, nfttest.TypeAdvertisement, own6.AsSlice())[:8]
	drops("advertisement in fragments", v6, nfttest.IP(peer6, own6, 44, nfttest.Fragment(58, 0, true, short)))
	passes("echo in fragments", v6, nfttest.IP(peer6, own6, 44, nfttest.Fragment(
		58, 0, true, nfttest.ICMPv6(peer6, own6, 128, nil))))
	tagged := func(name string, src netip.Addr, passes bool, tags ...[2]uint16) {
		payload := nfttest.IP(src, addr("10.0.0.8"), 17, data)
		c.add(name, "eth0", nfttest.Ether(nfttest.Broadcast(), mac(9), tags, v4, payload), passes)
	}
	tagged("IPv4 in a VLAN", peer, true, [2]uint16{nfttest.EtherVLAN, 7})
	tagged("IPv4 behind a priority tag", peer, true, [2]uint16{nfttest.EtherVLAN, 0})
	tagged("IPv4 of an endpoint behind a priority tag", own, false, [2]uint16{nfttest.EtherVLAN, 0})
	tagged("IPv4 of an endpoint in a VLAN", own, false, [2]uint16{nfttest.EtherVLAN, 7})
	tagged("two tags", own, true, [2]uint16{0x88a8, 7}, [2]uint16{nfttest.EtherVLAN, 8})
	tagged("a priority tag behind a tag", own, true, [2]uint16{nfttest.EtherVLAN, 7}, [2]uint16{nfttest.EtherVLAN, 0})
	tagged("two priority tags", own, false, [2]uint16{nfttest.EtherVLAN, 0}, [2]uint16{nfttest.EtherVLAN, 0})
	tagged("two priority tags of a provider", own, false, [2]uint16{0x88a8, 0xe000}, [2]uint16{0x88a8, 0})
}
