// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// World makes random states from few names and addresses, so that many of them occur in several
// objects.
type World struct{ *rand.Rand }

// NewWorld returns the World of a seed. With different streams, tests with equal seeds get
// different worlds.
func NewWorld(seed, stream uint64) World { return World{rand.New(rand.NewPCG(seed, stream))} }

// AddrPool returns the addresses from which random states are made.
func AddrPool() []netip.Addr {
	var out []netip.Addr
	for _, a := range []string{
		"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "192.168.0.1", "255.255.255.255",
		"fd00::1", "fd00::2", "fd00:0:1::1", "fd01::1", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// Pick returns a random item.
func Pick[T any](w World, items []T) T { return items[w.IntN(len(items))] }

// Some returns between 1 and n random items, or nil. The parameter chance is the probability that
// there are items, from 0 to 1.
func Some[T any](w World, chance float64, n int, item func() T) []T {
	if w.Float64() >= chance {
		return nil
	}
	var out []T
	for range 1 + w.IntN(n) {
		out = append(out, item())
	}
	return out
}

// Prefix returns a random prefix.
func (w World) Prefix() netip.Prefix {
	a := Pick(w, AddrPool())
	lengths := []int{0, 1, 7, 8, 16, 23, 24, 30, 31, 32}
	if a.Is6() {
		lengths = []int{0, 1, 8, 16, 47, 48, 64, 127, 128}
	}
	return netip.PrefixFrom(a, Pick(w, lengths)).Masked()
}

// Port returns a random port.
func (w World) Port() uint16 { return Pick(w, []uint16{1, 79, 80, 81, 443, 8080, 65534, 65535}) }

func (w World) portRange() policy.Port {
	a, b := w.Port(), w.Port()
	switch w.IntN(8) {
	case 0:
		return policy.PortRange(0, 65535)
	case 1, 2, 3:
		return policy.PortRange(min(a, b), max(a, b))
	default:
		return policy.PortNumber(a)
	}
}

// ICMP returns a random match on ICMP.
func (w World) ICMP() *policy.ICMP {
	typ, code := w.IntN(3), w.IntN(2)
	if w.IntN(2) == 0 {
		return &policy.ICMP{Type: &typ}
	}
	return &policy.ICMP{Type: &typ, Code: &code}
}

// NetSets returns the IDs of the sets of prefixes.
func NetSets() []dataplane.IPSetID { return []dataplane.IPSetID{"s:a", "s:b", "s:c", "s:empty"} }

// PortSets returns the IDs of the sets of ports.
func PortSets() []dataplane.IPSetID { return []dataplane.IPSetID{"p:a", "p:b", "p:empty"} }

func (w World) match() dataplane.Match {
	const chance = 0.08
	return dataplane.Match{
		Nets:        Some(w, chance, 4, w.Prefix),
		NotNets:     Some(w, chance, 3, w.Prefix),
		Sets:        Some(w, chance, 2, func() dataplane.IPSetID { return Pick(w, NetSets()) }),
		NotSets:     Some(w, chance, 2, func() dataplane.IPSetID { return Pick(w, NetSets()) }),
		Ports:       Some(w, chance, 4, w.portRange),
		PortSets:    Some(w, chance, 2, func() dataplane.IPSetID { return Pick(w, PortSets()) }),
		NotPorts:    Some(w, chance, 3, w.portRange),
		NotPortSets: Some(w, chance, 2, func() dataplane.IPSetID { return Pick(w, PortSets()) }),
	}
}

func protocols() []policy.Protocol { return []policy.Protocol{1, 6, 17, 58, 132, 136, 253} }

func (w World) rule(id string) dataplane.Rule {
	r := dataplane.Rule{
		ID:     id,
		Action: Pick(w, []policy.Action{policy.Allow, policy.Allow, policy.Deny, policy.Pass, policy.Log}),
		Source: w.match(), Destination: w.match(),
	}
	if w.IntN(10) == 0 {
		r.IPVersion = Pick(w, []int{4, 6})
	}
	if w.IntN(3) == 0 {
		r.Protocol = Pick(w, protocols())
	}
	if w.IntN(8) == 0 {
		r.NotProtocol = Pick(w, protocols())
	}
	if w.IntN(8) == 0 {
		r.ICMP = w.ICMP()
	}
	if w.IntN(8) == 0 {
		r.NotICMP = w.ICMP()
	}
	r.DSCP, r.NotDSCP = Some(w, 0.1, 4, w.DSCP), Some(w, 0.1, 3, w.DSCP)
	return r
}

// DSCP returns a random code point of the list that the function DSCPs returns.
func (w World) DSCP() policy.DSCP { return Pick(w, DSCPs()) }

// Header returns random fields of the IP header.
func (w World) Header() policy.Header { return policy.Header{DSCP: w.DSCP()} }

// DSCPs returns the code points of random rules and packets. Among them are the lowest and the
// highest code point, some adjacent ones, and one that is adjacent to no other.
func DSCPs() []policy.DSCP { return []policy.DSCP{0, 0, 0, 1, 10, 11, 46, 62, 63} }

// variant returns a rule that differs from r in one list, or in nothing but its ID.
func (w World) variant(r dataplane.Rule, id string) dataplane.Rule {
	r.ID = id
	nets, ports := Some(w, 0.9, 3, w.Prefix), Some(w, 0.9, 3, w.portRange)
	switch w.IntN(5) {
	case 0:
		r.Source.Nets = nets
	case 1:
		r.Destination.Nets = nets
	case 2:
		r.Source.Ports = ports
	case 3:
		r.Destination.Ports = ports
	}
	return r
}

func (w World) rules(id string) (out []dataplane.Rule) {
	for i := range w.IntN(4) {
		next := w.rule(fmt.Sprintf("%s-%d", id, i))
		if i > 0 && w.IntN(3) == 0 { // a rule that differs little from its neighbour may be merged with it
			next = w.variant(out[i-1], next.ID)
		}
		out = append(out, next)
	}
	return out
}

// State returns a random state with three endpoints.
func (w World) State() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	for _, id := range NetSets() {
		s.Sets[id] = w.Set(dataplane.IPSetNets, func() dataplane.Member {
			if p := w.Prefix(); w.IntN(2) == 0 {
				return dataplane.Member{Prefix: p}
			}
			a := Pick(w, AddrPool())
			return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
		})
	}
	for _, id := range PortSets() {
		s.Sets[id] = w.Set(dataplane.IPSetPorts, func() dataplane.Member {
			a := Pick(w, AddrPool())
			return dataplane.Member{
				Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: Pick(w, []policy.Protocol{6, 17, 132}),
				Port: w.Port(),
			}
		})
	}
	s.Sets["s:empty"], s.Sets["p:empty"] = dptest.Set{}, dptest.Set{Type: dataplane.IPSetPorts}
	for i := range 5 {
		key := policy.Key{
			Kind: policy.KindPolicy, Namespace: Pick(w, []string{"", "shop"}), Name: fmt.Sprintf("p%d", i),
		}
		s.Policies[key] = &dataplane.Policy{
			Tier: "t", Staged: w.IntN(6) == 0,
			Ingress: w.rules(key.Name + "-in"), Egress: w.rules(key.Name + "-out"),
		}
	}
	for _, name := range []string{"a", "b"} {
		s.Profiles[name] = &dataplane.Profile{Ingress: w.rules(name + "-in"), Egress: w.rules(name + "-out")}
	}
	for i := range 3 {
		name := fmt.Sprintf("way%d", i)
		s.Endpoints[EndpointKey(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: AddrPool(), Down: w.IntN(10) == 0,
			Ingress: w.Tiers(s), Egress: w.Tiers(s),
			Profiles: Pick(w, [][]string{nil, {"a"}, {"a", "b"}, {"b", "a"}}),
		}
	}
	return s
}

// Set returns a set with a few random members.
func (w World) Set(typ dataplane.IPSetType, member func() dataplane.Member) dptest.Set {
	members := Some(w, 0.9, 5, member)
	slices.SortFunc(members, dataplane.Member.Compare)
	return dptest.Set{Type: typ, Members: slices.Compact(members)}
}

// Tiers returns random tiers with policies of the state.
func (w World) Tiers(s dptest.State) (out []dataplane.TierPolicies) {
	keys := make([]policy.Key, 0, len(s.Policies))
	for k := range s.Policies {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := 0; i < len(keys) && w.IntN(4) > 0; {
		n := min(1+w.IntN(2), len(keys)-i)
		out = append(out, dataplane.TierPolicies{
			Tier:          fmt.Sprintf("t%d", i),
			DefaultAction: Pick(w, []policy.Action{policy.Deny, policy.Pass}),
			Policies:      keys[i : i+n],
		})
		i += n
	}
	return out
}

// Packet returns a random packet, with its transport header and payload.
func (w World) Packet() (p dptest.Packet, transport []byte) {
	pool := AddrPool()
	p = dptest.Packet{Src: Pick(w, pool), Dst: Pick(w, pool), Protocol: Pick(w, protocols()), Header: w.Header()}
	for p.Dst.Is4() != p.Src.Is4() {
		p.Dst = Pick(w, pool)
	}
	switch {
	case p.Protocol.HasPorts():
		p.SrcPort, p.DstPort = w.Port(), w.Port()
		transport = Ports(p.SrcPort, p.DstPort)
	case p.Protocol == policy.ProtocolICMP, p.Protocol == policy.ProtocolICMPv6:
		p.ICMPType, p.ICMPCode = uint8(w.IntN(3)), uint8(w.IntN(2))
		transport = ICMPHeader(p.ICMPType, p.ICMPCode)
	default: // bytes that look like ports but are none, and are often cut short
		transport = Ports(w.Port(), w.Port())[:w.IntN(6)]
	}
	if name := fmt.Sprintf("way%d", w.IntN(4)); name != "way3" {
		p.From = EndpointKey(name)
	}
	if name := fmt.Sprintf("way%d", w.IntN(4)); name != "way3" {
		p.To = EndpointKey(name)
	}
	return p, transport
}

// Ports returns a transport header that begins with two ports.
func Ports(src, dst uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, src)
	return append(binary.BigEndian.AppendUint16(h, dst), make([]byte, 16)...)
}

// ICMPHeader returns a transport header that begins with type and code.
func ICMPHeader(typ, code uint8) []byte { return append([]byte{typ, code}, make([]byte, 6)...) }
