// SPDX-License-Identifier: Apache-2.0

package encode_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// For a set of ports, the kernel chooses a bitmap of all ports, which takes 32 kB, unless the set's
// policy is memory. For other sets, it has only one type.
func TestPortSetsTakeLittleMemory(t *testing.T) {
	port := func(n uint16) ruleset.Value { return binary.BigEndian.AppendUint16(nil, n) }
	one := func(v ruleset.Value) ruleset.Element { return ruleset.Element{Key: []ruleset.Value{v}} }
	ports := []ruleset.Element{one(port(80)), one(port(443))}
	ranges := []ruleset.Element{{Key: []ruleset.Value{port(80)}, Last: port(90)}}
	addresses := []ruleset.Element{one(ruleset.Value{10, 0, 0, 1}), one(ruleset.Value{10, 0, 0, 2})}
	for name, c := range map[string]struct {
		in     ruleset.In
		memory bool
	}{
		"ports":     {ruleset.In{Fields: []ruleset.Field{ruleset.Dport}, Elements: ports}, true},
		"ranges":    {ruleset.In{Fields: []ruleset.Field{ruleset.Dport}, Elements: ranges}, false},
		"addresses": {ruleset.In{Fields: []ruleset.Field{ruleset.IPSaddr}, Elements: addresses}, false},
	} {
		t.Run(name, func(t *testing.T) {
			batch := nfnl.NewBatch()
			e := encode.New(batch, ruleset.FamilyINet, tableName, func(string) *ruleset.Set { return nil })
			r := rule(c.in)
			e.Rule("c", 0, &r)
			require.NoError(t, e.Err())
			data, err := batch.Data()
			require.NoError(t, err)
			for len(data) > 0 {
				var m netlink.Message
				data, err = m.Read(data)
				require.NoError(t, err)
				if m.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWSET {
					set := netlink.FindAttr(m.Data[4:], unix.NFTA_SET_POLICY)
					require.Equal(t, c.memory, set != nil && netlink.Number32(set) == unix.NFT_SET_POL_MEMORY)
					return
				}
			}
			require.Fail(t, "no set")
		})
	}
}
