// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// DefaultMaxFlows is the default of DiffConfig.MaxFlows. In a large world, Diff takes some minutes
// for this number of flows.
const DefaultMaxFlows = 5_000_000

// DiffConfig selects the flows of Diff. The zero value selects all flows that can have different
// verdicts.
type DiffConfig struct {
	// Ports of the flows. The default is Partition.Ports.
	Ports []PortGroup
	// Outside are parties outside of the cluster. The default, nil, is Partition.Outside.
	Outside []Party
	// MaxFlows is the maximum number of flows. If there are more, Diff returns a *LimitError. The
	// default is DefaultMaxFlows.
	MaxFlows int
	// Progress is Comparison.Progress. Optional.
	Progress func(done, all int) error
}

// Difference is the result of Diff: the flows whose verdicts differ between two worlds, and a
// summary of the comparison. String returns a text for people, and encoding/json encodes a
// Difference for programs.
type Difference struct {
	// Ports and Parties list the ports and parties of the comparison. Ports has one text for each
	// PortGroup. Parties has one list for each Group: the names of its parties. Flows is the number
	// of flows.
	Ports   []string   `json:"ports"`
	Parties [][]string `json:"parties"`
	Flows   int        `json:"flows"`
	// SourcePorts reports whether any rule has a condition on source ports. If so, there may be
	// more differences than Pairs has, because all evaluated flows have the DefaultSourcePort.
	SourcePorts bool `json:"sourcePortsMatter"`
	// OnlyBefore are the endpoints that only the first world has. OnlyAfter are the endpoints that
	// only the second world has. None of them was evaluated.
	OnlyBefore []string `json:"onlyBefore,omitempty"`
	OnlyAfter  []string `json:"onlyAfter,omitempty"`
	// Moved are the endpoints that both worlds have, but not with the same addresses. Only those of
	// their addresses that are in both worlds were evaluated.
	Moved []string `json:"otherAddresses,omitempty"`
	// Rejected has the errors of resources that are invalid in one of the worlds. In this world,
	// they were treated as absent.
	Rejected []string `json:"rejected"`
	// Pairs are the changes.
	Pairs []PairChange `json:"pairs"`
}

// LimitError is the error of Diff if there are too many flows. Diff has then evaluated none of
// them.
type LimitError struct {
	// Flows is the number of flows, and Limit the maximum.
	Flows, Limit int
}

// Error returns both numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("probe: diff: %d flows are more than %d", e.Flows, e.Limit)
}

// Diff evaluates flows in two worlds, and returns those whose verdicts differ. A world has all
// resources of a cluster at one moment. The flows are between workload endpoints that both worlds
// have, and between these endpoints and addresses outside of the cluster. Diff does not change the
// worlds.
//
// Each flow is evaluated twice, once in each world. To limit the number of flows, Diff divides the
// parties (senders and receivers) into groups: policy does not distinguish the parties of a group.
// One flow then represents all flows from one group to another on a port. So the number of flows is
// about the square of the number of groups, times the number of ports.
//
// Errors: a *LimitError; those of DiffConfig.Progress.
func Diff(before, after verdict.World, cfg DiffConfig) (Difference, error) {
	var d Difference
	c := Comparison{Progress: cfg.Progress, Ports: cfg.Ports, Before: verdict.New(before), After: verdict.New(after)}
	d.Rejected = []string{}
	before, after = d.withoutRejected(before, c.Before), d.withoutRejected(after, c.After)

	partition := NewPartition(before, after)
	common := Intersect(NewIndex(before), NewIndex(after))
	d.OnlyBefore, d.OnlyAfter, d.Moved = common.OnlyBefore, common.OnlyAfter, common.Moved
	d.SourcePorts = partition.SourcePorts()
	if len(c.Ports) == 0 {
		c.Ports = partition.Ports()
	}
	outside := cfg.Outside
	if outside == nil {
		outside = partition.Outside()
	}
	c.Parties = partition.Groups(slices.Concat(common.Parties, outside))
	if d.Flows = c.Flows(); d.Flows > cmp.Or(cfg.MaxFlows, DefaultMaxFlows) {
		return Difference{}, &LimitError{d.Flows, cmp.Or(cfg.MaxFlows, DefaultMaxFlows)}
	}
	d.Ports, d.Parties, d.Pairs = []string{}, [][]string{}, []PairChange{}
	for _, p := range c.Ports {
		d.Ports = append(d.Ports, p.String())
	}
	for _, g := range c.Parties {
		d.Parties = append(d.Parties, g.Names())
	}
	err := c.Each(func(p PairChange) error {
		d.Pairs = append(d.Pairs, p)
		return nil
	})
	if err != nil {
		return Difference{}, err
	}
	return d, nil
}

// withoutRejected returns the world without its invalid resources, and records their errors.
func (d *Difference) withoutRejected(w verdict.World, e *verdict.Evaluator) verdict.World {
	rejected := e.Rejected()
	if len(rejected) == 0 {
		return w
	}
	w = maps.Clone(w)
	for _, key := range slices.SortedFunc(maps.Keys(rejected), policy.Key.Compare) {
		if text := rejected[key].Error(); !slices.Contains(d.Rejected, text) {
			d.Rejected = append(d.Rejected, text)
		}
		delete(w, key)
	}
	return w
}

// Common has the workload endpoints of two worlds.
type Common struct {
	// Parties are the endpoints that both worlds have. Each has the addresses that it has in both
	// worlds, and the named ports that it has in at least one.
	Parties []Party
	// OnlyBefore are the names of the endpoints that only the first world has. OnlyAfter are the
	// names of the endpoints that only the second world has.
	OnlyBefore, OnlyAfter []string
	// Moved are the names of endpoints that both worlds have, but not with the same addresses. If
	// an endpoint has no address that is in both worlds, it is not in Parties.
	Moved []string
}

// Intersect returns the workload endpoints that are in both indexes, and the names of those that
// are in only one. All lists are sorted by name.
func Intersect(before, after *Index) Common {
	var c Common
	byName := map[string]Party{}
	for _, p := range before.endpoints {
		byName[p.Name] = p
	}
	for _, now := range after.endpoints {
		was, ok := byName[now.Name]
		delete(byName, now.Name)
		if !ok {
			c.OnlyAfter = append(c.OnlyAfter, now.Name)
			continue
		}
		both := slices.DeleteFunc(slices.Clone(now.Addresses), func(a netip.Addr) bool {
			return !slices.Contains(was.Addresses, a)
		})
		if len(both) < max(len(now.Addresses), len(was.Addresses)) {
			c.Moved = append(c.Moved, now.Name)
		}
		if len(both) == 0 {
			continue
		}
		now.Addresses = both
		for _, port := range was.Ports {
			if !slices.Contains(now.Ports, port) {
				now.Ports = append(slices.Clip(now.Ports), port)
			}
		}
		c.Parties = append(c.Parties, now)
	}
	for name := range byName {
		c.OnlyBefore = append(c.OnlyBefore, name)
	}
	slices.Sort(c.OnlyBefore)
	return c
}

// String returns the changes, followed by a summary of the comparison, such as the number of flows.
// The text is for people and may change.
func (d Difference) String() string {
	var text strings.Builder
	for _, p := range d.Pairs {
		text.WriteString(p.String())
	}
	for _, line := range []struct {
		names []string
		what  string
	}{
		{d.OnlyBefore, "before only, not compared"},
		{d.OnlyAfter, "after only, not compared"},
		{d.Moved, "with other addresses, compared by those in both worlds"},
		{d.Rejected, "invalid, absent"},
	} {
		if len(line.names) > 0 {
			fmt.Fprintf(&text, "%s: %s\n", line.what, strings.Join(line.names, " "))
		}
	}
	if d.SourcePorts {
		fmt.Fprintf(&text, "some rules match source ports: only %d was tried\n", DefaultSourcePort)
	}
	fmt.Fprintf(&text, "tried %s between %s on: %s\n", count(d.Flows, "flow"), count(len(d.Parties), "group"),
		strings.Join(d.Ports, " "))
	if len(d.Pairs) == 0 {
		text.WriteString("no verdict changes\n")
	} else {
		fmt.Fprintf(&text, "verdicts change between %s\n", count(len(d.Pairs), "pair"))
	}
	return text.String()
}
