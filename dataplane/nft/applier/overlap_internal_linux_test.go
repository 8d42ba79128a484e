// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func TestReplacesOverlaps(t *testing.T) {
	nets := &ruleset.Set{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true}
	other := &ruleset.Set{Name: "other", Key: nets.Key, Interval: true}
	areas := &ruleset.Set{Name: "areas", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true}
	hosts := &ruleset.Set{Name: "hosts", Key: nets.Key}
	op := func(kind ruleset.OpKind, s *ruleset.Set, list ...string) ruleset.Op {
		o := ruleset.Op{Kind: kind, Set: s}
		for _, text := range list {
			p := netip.MustParsePrefix(text)
			e := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(p.Addr())}}
			if !p.IsSingleIP() {
				e.Last = ruleset.Addr(ruleset.LastAddr(p))
			}
			o.Elements = append(o.Elements, e)
		}
		return o
	}
	area := func(kind ruleset.OpKind, text string) ruleset.Op {
		o := op(kind, areas, text)
		o.Elements[0].Key = append(o.Elements[0].Key, ruleset.Port(1))
		return o
	}
	add, del := ruleset.AddElements, ruleset.DeleteElements
	unseen := op(add, nets, "10.0.0.0/9")
	unseen.Unseen = true
	for name, tt := range map[string]struct {
		ops  []ruleset.Op
		want bool
	}{
		"nothing": {},
		"added":   {[]ruleset.Op{op(add, nets, "10.0.0.0/8")}, false},
		"removed": {[]ruleset.Op{op(del, nets, "10.0.0.0/8")}, false},
		"beside": {
			[]ruleset.Op{op(del, nets, "10.0.0.0/8", "13.0.0.0/8"), op(add, nets, "11.0.0.0/8", "12.0.0.0/8")}, false,
		},
		"smaller": {[]ruleset.Op{op(del, nets, "10.0.0.0/8"), op(add, nets, "10.0.0.0/9")}, true},
		"inside":  {[]ruleset.Op{op(del, nets, "10.0.0.0/8"), op(add, nets, "10.9.0.1/32")}, true},
		"larger": {
			[]ruleset.Op{op(del, nets, "9.0.0.0/8", "10.255.255.255/32"), op(add, nets, "10.0.0.0/8")}, true,
		},
		"not in order": {
			[]ruleset.Op{op(del, nets, "10.0.0.0/8", "1.0.0.0/8"), op(add, nets, "20.0.0.0/8", "1.2.3.4/32")}, true,
		},
		"other set":  {[]ruleset.Op{op(del, nets, "10.0.0.0/8"), op(add, other, "10.0.0.0/9")}, false},
		"hashes":     {[]ruleset.Op{op(del, hosts, "10.0.0.0/32"), op(add, hosts, "10.0.0.0/32")}, false},
		"two fields": {[]ruleset.Op{area(del, "10.0.0.0/8"), area(add, "11.0.0.0/8")}, true},
		"two added":  {[]ruleset.Op{area(add, "10.0.0.0/8"), area(add, "11.0.0.0/8")}, false},
		"unseen":     {[]ruleset.Op{op(del, nets, "10.0.0.0/8"), unseen}, false},
	} {
		require.Equal(t, tt.want, replacesOverlaps(tt.ops), name)
		if tt.want {
			require.True(t, needsShadows(tt.ops, shadowConditions{overlap: true}), name)
			require.False(t, needsShadows(tt.ops, shadowConditions{}), name)
			tt.ops[0].Apart = true
			require.True(t, needsShadows(tt.ops, shadowConditions{overlap: true}), name)
		}
	}
}
