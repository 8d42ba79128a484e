// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

func parsePool(name string, fields fields) (policy.Resource, error) {
	cidr, err := netip.ParsePrefix(fields.get("cidr"))
	if err != nil {
		return nil, err
	}
	return &policy.IPPool{
		Name: name, CIDR: cidr, NATOutgoing: fields.has("nat"), Disabled: fields.has("disabled"),
		VXLANMode: policy.EncapMode(fields.get("vxlan")), IPIPMode: policy.EncapMode(fields.get("ipip")),
	}, nil
}

func parseBlock(name string, fields fields) (policy.Resource, error) {
	cidr, err := netip.ParsePrefix(name)
	if err != nil {
		return nil, err
	}
	b := &policy.Block{CIDR: cidr, Node: fields.get("node")}
	for _, s := range fields.list("borrowed") {
		text, borrower, _ := strings.Cut(s, "=")
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		b.Borrowed = append(b.Borrowed, policy.BorrowedAddress{Address: addr, Node: borrower})
	}
	return b, nil
}

func parseNode(name string, fields fields) (policy.Resource, error) {
	n := &policy.Node{
		Name: name, Labels: fields.labels(), VXLANTunnelMACAddr: fields.get("mac"),
		VXLANTunnelMACAddrV6: fields.get("mac6"),
	}
	for _, s := range fields.list("addrs") {
		addr, bits, _ := strings.Cut(s, "/")
		a, err := netip.ParseAddr(addr)
		if err != nil {
			return nil, err
		}
		p := netip.PrefixFrom(a, a.BitLen())
		if bits != "" {
			if p, err = netip.ParsePrefix(s); err != nil {
				return nil, err
			}
		}
		n.Addresses = append(n.Addresses, p)
	}
	for text, addr := range map[string]*netip.Addr{
		fields.get("tunnel"): &n.IPv4VXLANTunnelAddr, fields.get("tunnel6"): &n.IPv6VXLANTunnelAddr,
	} {
		if text == "" {
			continue
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		*addr = a
	}
	return n, nil
}
