// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// The language of updates, for what routes are made of:
//
//	pool p cidr 10.0.0.0/16 [vxlan Always|CrossSubnet] [ipip Always|CrossSubnet] [nat] [disabled]
//	block 10.0.1.0/29 [node n2] [borrowed 10.0.1.2=n3,10.0.1.3=n1]
//	node n2 addrs 192.168.0.2/24,fd00::2 [tunnel 10.0.1.1] [tunnel6 fd00:1::1] [mac M] [mac6 M] [labels a=b]

// parseNetworkObject returns the object of the line, or nil if its kind is none of these.
func parseNetworkObject(words []string, fields fields) (policy.Resource, error) {
	switch words[0] {
	case "pool":
		return parsePool(words[1], fields)
	case "block":
		return parseBlock(words[1], fields)
	case "node":
		return parseNode(words[1], fields)
	}
	return nil, nil
}

func parsePool(name string, fields fields) (policy.Resource, error) {
	cidr, err := netip.ParsePrefix(fields["cidr"])
	if err != nil {
		return nil, err
	}
	return &policy.IPPool{
		Name: name, CIDR: cidr, NATOutgoing: fields.has("nat"), Disabled: fields.has("disabled"),
		VXLANMode: policy.EncapMode(fields["vxlan"]), IPIPMode: policy.EncapMode(fields["ipip"]),
	}, nil
}

func parseBlock(name string, fields fields) (policy.Resource, error) {
	cidr, err := netip.ParsePrefix(name)
	if err != nil {
		return nil, err
	}
	b := &policy.Block{CIDR: cidr, Node: fields["node"]}
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
		Name: name, Labels: fields.labels(), VXLANTunnelMACAddr: fields["mac"], VXLANTunnelMACAddrV6: fields["mac6"],
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
	for text, addr := range map[string]*netip.Addr{fields["tunnel"]: &n.IPv4VXLANTunnelAddr, fields["tunnel6"]: &n.IPv6VXLANTunnelAddr} {
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
