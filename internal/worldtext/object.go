// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

func parseObject(words []string) (policy.Update, error) {
	kind, name := words[0], words[1]
	if kind == "delete" {
		return deletion(name), nil
	}
	f, err := parseFields(words[2:])
	if err != nil {
		return policy.Update{}, err
	}
	resource := f.resource(kind, name)
	if f.err != nil {
		return policy.Update{}, f.err
	}
	if resource == nil {
		return policy.Update{}, fmt.Errorf("unknown kind %q", kind)
	}
	return policy.Update{Key: resource.Key(), Resource: resource}, nil
}

// deletion parses the key in "delete Policy/shop/web".
func deletion(name string) policy.Update {
	if cidr, ok := strings.CutPrefix(name, string(policy.KindBlock)+"/"); ok {
		return policy.Update{Key: policy.Key{Kind: policy.KindBlock, Name: cidr}}
	}
	parts := strings.Split(name, "/")
	key := policy.Key{Kind: policy.Kind(parts[0]), Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		key.Namespace = parts[1]
	}
	return policy.Update{Key: key}
}

// resource returns a resource, or nil if there is no such kind.
func (f *fields) resource(kind, path string) policy.Resource {
	namespace, name, ok := strings.Cut(path, "/")
	if !ok {
		namespace, name = "", path
	}
	switch kind {
	case "tier":
		return &policy.Tier{Name: name, Order: f.order(), DefaultAction: policy.Action(f.get("default"))}
	case "policy":
		return f.policy(namespace, name)
	case "profile":
		return &policy.Profile{Name: name, LabelsToApply: f.labels()}
	case "endpoint":
		return f.endpoint(namespace, name)
	case "hostep":
		return &policy.HostEndpoint{
			Name: name, Node: cmp.Or(f.get("node"), Node), InterfaceName: f.get("interface"),
			Labels: f.labels(), Profiles: f.list("profiles"),
			ExpectedIPs: f.addrs("addrs"), Ports: all(f, "ports", parseEndpointPort),
		}
	case "netset":
		return &policy.NetworkSet{Namespace: namespace, Name: name, Labels: f.labels(), Nets: f.nets("nets")}
	case "service":
		return &policy.ServiceBackends{
			Namespace: namespace, Name: name, Service: f.get("of"),
			Addresses: f.addrs("addrs"), Ports: all(f, "serves", parseServicePort),
		}
	case "pool": // vxlan and ipip: Always or CrossSubnet
		return &policy.IPPool{
			Name: name, CIDR: read(f, f.get("cidr"), netip.ParsePrefix),
			NATOutgoing: f.has("nat"), Disabled: f.has("disabled"),
			VXLANMode: policy.EncapMode(f.get("vxlan")), IPIPMode: policy.EncapMode(f.get("ipip")),
		}
	case "block":
		return &policy.Block{
			CIDR: read(f, path, netip.ParsePrefix), Node: f.get("node"), Borrowed: all(f, "borrowed", parseBorrowed),
		}
	case "node": // tunnel 10.0.1.1 and tunnel6 fd00:1::1, mac and mac6: of the VXLAN devices; ipip 10.0.1.2;
		// wg 10.0.1.3 and wg6 fd00:1::3; keys KEY:51820,KEY:51821:rotating
		return &policy.Node{
			Name: name, Labels: f.labels(), VXLANTunnelMACAddr: f.get("mac"), VXLANTunnelMACAddrV6: f.get("mac6"),
			Addresses:           all(f, "addrs", parseSubnet),
			IPv4VXLANTunnelAddr: one(f, "tunnel", netip.ParseAddr),
			IPv6VXLANTunnelAddr: one(f, "tunnel6", netip.ParseAddr),
			IPv4IPIPTunnelAddr:  one(f, "ipip", netip.ParseAddr),
			IPv4WireguardAddr:   one(f, "wg", netip.ParseAddr),
			IPv6WireguardAddr:   one(f, "wg6", netip.ParseAddr),
			WireguardKeys:       all(f, "keys", policy.ParseWireguardKey),
		}
	}
	return nil
}

func (f *fields) policy(namespace, name string) *policy.Policy {
	p := &policy.Policy{
		Namespace: namespace, Name: name, Tier: f.get("tier"), Order: f.order(),
		Selector: f.get("select"), NamespaceSelector: f.get("ns"), ServiceAccountSelector: f.get("sa"),
		Staged: f.has("staged"), ApplyOnForward: f.has("forward"),
		DoNotTrack: f.has("untracked"), PreDNAT: f.has("prednat"),
	}
	for _, typ := range f.list("types") {
		p.Types = append(p.Types, policy.Type(typ))
	}
	if f.has("always") {
		p.PerformanceHints = []policy.PerformanceHint{policy.AssumeNeededOnEveryNode}
	}
	return p
}

func (f *fields) endpoint(namespace, name string) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{
		Namespace: namespace, Name: name, Node: cmp.Or(f.get("node"), Node), Interface: "wl" + name,
		Labels: f.labels(), Profiles: f.list("profiles"),
		Addresses: f.addrs("addrs"), Ports: all(f, "ports", parseEndpointPort),
		IPNATs: all(f, "natips", parseNAT), AllowSpoofedSourcePrefixes: f.nets("sources"),
	}
	if f.has("down") {
		w.AdminState = policy.AdminDown
	}
	return w
}
