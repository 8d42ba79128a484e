// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// LocalAddresses counts the addresses of this node's workloads. For a packet between two workloads
// of this node, policy looks up two addresses. The sender's policy looks up the destination, and
// the receiver's policy looks up the source. For any other packet, policy of workloads looks up at
// most one address. Classifier.Apart uses the counts.
type LocalAddresses struct {
	count map[netip.Addr]int
	// sources is the number of prefixes that workloads may send from, in addition to their
	// addresses. While there are such prefixes, any source may be that of a workload of this node.
	sources int
	sorted  []netip.Addr // the keys of count; nil if they must be sorted again
}

// NewLocalAddresses returns LocalAddresses without an address.
func NewLocalAddresses() *LocalAddresses { return &LocalAddresses{count: map[netip.Addr]int{}} }

// Add adds n to the counts of the addresses of an endpoint. n is 1 for a new endpoint and -1 for a
// removed one.
func (l *LocalAddresses) Add(e *dataplane.Endpoint, n int) {
	l.sources += n * len(e.AllowedSources)
	for _, a := range e.Addresses {
		if l.count[a] += n; l.count[a] == 0 {
			delete(l.count, a)
		}
	}
	l.sorted = nil
}

// within returns the number of counted addresses in a range, but at most two.
func (l *LocalAddresses) within(first, last netip.Addr) (n int) {
	if l.sorted == nil {
		l.sorted = slices.SortedFunc(maps.Keys(l.count), netip.Addr.Compare)
	}
	i, _ := slices.BinarySearchFunc(l.sorted, first, netip.Addr.Compare)
	for n < 2 && i+n < len(l.sorted) && l.sorted[i+n].Compare(last) <= 0 {
		n++
	}
	return n
}

// Apart reports whether the kernel may apply the changes of the delta one after the other (see
// ruleset.Delta.Apart). This is safe if no packet can see a mixture of old and new elements, so
// Apart requires the following:
//
//   - The delta changes only the classes of addresses.
//   - For each packet, the rules look up at most one changed address, and only once.
func (c *Classifier) Apart(d *ruleset.Delta, local *LocalAddresses) bool {
	if len(d.Chains)+len(d.DeleteChains)+len(d.Sets)+len(d.DeleteSets) > 0 {
		return false
	}
	var v4, v6 changedElements
	for i := range d.Elements {
		e := &d.Elements[i]
		switch e.Set {
		case mapHosts4, mapPrefixes4:
			v4.add(e, e.Set == mapPrefixes4, local)
		case mapHosts6, mapPrefixes6:
			v6.add(e, e.Set == mapPrefixes6, local)
		default:
			if len(e.Add)+len(e.Delete) > 0 {
				return false
			}
		}
	}
	sources := local.sources > 0
	return v4.apart(sources) && v6.apart(sources)
}

// changedElements has the changed elements of the class maps of one family.
type changedElements struct {
	hosts  []netip.Addr
	ranges []addressRange
	// local is the number of addresses of this node's workloads in hosts and ranges.
	local int
}

type addressRange struct{ first, last netip.Addr }

// add adds the changes of a map. ranges is set for the map of prefixes.
func (c *changedElements) add(e *ruleset.ElementDelta, ranges bool, local *LocalAddresses) {
	for _, list := range [...][]ruleset.Element{e.Add, e.Delete} {
		for i := range list {
			first, _ := netip.AddrFromSlice(list[i].Key[0])
			if !ranges {
				c.hosts = append(c.hosts, first)
				c.local += min(1, local.count[first])
				continue
			}
			last := first
			if list[i].Last != nil {
				last, _ = netip.AddrFromSlice(list[i].Last)
			}
			c.ranges = append(c.ranges, addressRange{first, last})
		}
	}
	if !ranges {
		return
	}
	// A range that is replaced occurs twice, with its old and its new bounds.
	slices.SortFunc(c.ranges, func(a, b addressRange) int { return a.first.Compare(b.first) })
	merged := c.ranges[:0]
	for _, a := range c.ranges {
		if n := len(merged); n > 0 && a.first.Compare(merged[n-1].last) <= 0 {
			if merged[n-1].last.Less(a.last) {
				merged[n-1].last = a.last
			}
			continue
		}
		merged = append(merged, a)
	}
	c.ranges = merged
	for _, a := range merged {
		c.local += local.within(a.first, a.last)
	}
}

// apart reports whether the rules look up at most one of the changes for each packet, and only
// once. It returns false in two cases:
//
//   - If a changed address is in a changed range, the rules look up two changes.
//   - If the address belongs to a workload of this node, the rules may look up a change twice. The
//     reason is that the workload may send to itself through a service. If the parameter sources is
//     set, any address may belong to such a workload.
func (c *changedElements) apart(sources bool) bool {
	if c.local > 0 || sources && len(c.ranges)+len(c.hosts) > 0 {
		return false
	}
	if len(c.ranges) == 0 {
		return true
	}
	for _, a := range c.hosts {
		i, _ := slices.BinarySearchFunc(c.ranges, a, func(r addressRange, a netip.Addr) int {
			return r.last.Compare(a)
		})
		if i < len(c.ranges) && c.ranges[i].first.Compare(a) <= 0 {
			return false
		}
	}
	return true
}
