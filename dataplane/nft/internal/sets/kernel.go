// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Flush appends to the delta the changes since the last Flush, as changes of the kernel's sets.
func (s *IPSet) Flush(d *ruleset.Delta) {
	for _, f := range Families() {
		for _, kind := range []Kind{Hosts, Nets, Ports} {
			s.flushPart(partKey{kind, f}, d)
		}
	}
}

func (s *IPSet) flushPart(k partKey, d *ruleset.Delta) {
	p := s.parts[k]
	switch {
	case p == nil:
		return
	case !s.wanted(k):
		if p.installed {
			d.DeleteSets = append(d.DeleteSets, p.name)
		}
		p.installed, p.rewriteAll, p.pending = false, true, nil
		// A rendered rule may still refer to the set, although no chain contains the rule.
		if !s.shape.has(k.kind, k.family) {
			delete(s.parts, k)
			delete(s.lists.parts, p.name)
		}
		return
	case p.rewriteAll || !p.installed:
		d.Sets = append(d.Sets, s.kernelSet(k))
	case len(p.pending) > 0:
		d.Elements = append(d.Elements, p.elements())
	}
	p.installed, p.rewriteAll, p.pending = true, false, nil
}

// wanted reports whether the table should have one of the kernel's sets: it has members, and a rule
// references it.
func (s *IPSet) wanted(k partKey) bool {
	return s.shape.has(k.kind, k.family) && s.parts[k] != nil && s.lists.users[s.parts[k].name] > 0
}

// elements returns the changes of one kernel set.
func (p *part) elements() ruleset.ElementDelta {
	d := ruleset.ElementDelta{Set: p.name}
	for _, m := range slices.SortedFunc(maps.Keys(p.pending), dataplane.Member.Compare) {
		if p.pending[m] {
			d.Add = append(d.Add, memberElement(m))
		} else {
			d.Delete = append(d.Delete, memberElement(m))
		}
	}
	return d
}

// memberElement returns the element of one member.
func memberElement(m dataplane.Member) ruleset.Element {
	if m.Port != 0 {
		return ruleset.Element{Key: []ruleset.Value{
			ruleset.Addr(m.Prefix.Addr()), ruleset.Byte(uint8(m.Protocol)), ruleset.Port(m.Port),
		}}
	}
	return Range{m.Prefix.Addr(), ruleset.LastAddr(m.Prefix)}.Element()
}

// Kernel returns the kernel's sets with all their elements.
func (s *IPSet) Kernel() (out []*ruleset.Set) {
	for _, f := range Families() {
		for _, kind := range []Kind{Hosts, Nets, Ports} {
			if k := (partKey{kind, f}); s.wanted(k) {
				out = append(out, s.kernelSet(k))
			}
		}
	}
	return out
}

// kernelSet returns one kernel set with all its elements.
func (s *IPSet) kernelSet(k partKey) *ruleset.Set {
	set := &ruleset.Set{Name: s.part(k).name, Key: []ruleset.Type{AddrType(k.family)}, Interval: k.kind == Nets}
	switch {
	case k.kind == Hosts && k.family == IPv4:
		set.Elements = hostElements4(s.v4.hosts)
	case k.kind == Hosts:
		set.Elements = hostElements6(s.v6.hosts)
	case k.kind == Nets:
		nets := &s.v6.nets
		if k.family == IPv4 {
			nets = &s.v4.nets
		}
		for _, n := range nets.shown() {
			set.Elements = append(set.Elements, memberElement(dataplane.Member{Prefix: n}))
		}
	default:
		set.Key = append(set.Key, ruleset.TypeProto, ruleset.TypeService)
		for p := range s.v4.ports {
			if k.family == IPv4 {
				set.Elements = append(set.Elements, portElement(p.addr[:], p.proto, p.port))
			}
		}
		for p := range s.v6.ports {
			if k.family == IPv6 {
				set.Elements = append(set.Elements, portElement(p.addr[:], p.proto, p.port))
			}
		}
		slices.SortFunc(set.Elements, ruleset.CompareElements)
	}
	return set
}

// hostElements4 returns the addresses as elements, sorted. It needs few allocations.
func hostElements4(hosts map[[4]byte]struct{}) []ruleset.Element {
	sorted := make([]uint32, 0, len(hosts))
	for a := range hosts {
		sorted = append(sorted, binary.BigEndian.Uint32(a[:]))
	}
	slices.Sort(sorted)
	data := make([]byte, 0, 4*len(sorted))
	for _, a := range sorted {
		data = binary.BigEndian.AppendUint32(data, a)
	}
	return packedElements(data, 4)
}

// hostElements6 does what hostElements4 does, for IPv6.
func hostElements6(hosts map[[16]byte]struct{}) []ruleset.Element {
	sorted := slices.AppendSeq(make([][16]byte, 0, len(hosts)), maps.Keys(hosts))
	slices.SortFunc(sorted, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	data := make([]byte, 0, 16*len(sorted))
	for i := range sorted {
		data = append(data, sorted[i][:]...)
	}
	return packedElements(data, 16)
}

// packedElements divides data into pieces of the given size, and returns an element for each.
func packedElements(data []byte, size int) []ruleset.Element {
	out, keys := make([]ruleset.Element, len(data)/size), make([]ruleset.Value, len(data)/size)
	for i := range out {
		keys[i] = data[i*size : (i+1)*size : (i+1)*size]
		out[i].Key = keys[i : i+1 : i+1]
	}
	return out
}

func portElement(addr ruleset.Value, proto policy.Protocol, port uint16) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{slices.Clone(addr), ruleset.Byte(uint8(proto)), ruleset.Port(port)}}
}
