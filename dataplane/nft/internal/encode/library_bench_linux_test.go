// SPDX-License-Identifier: Apache-2.0

package encode_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// oursForExprs returns a rule whose expressions both encode to the same bytes.
func oursForExprs(port uint16) ruleset.Rule {
	return rule(isIPv4, isTCP,
		ruleset.Compare{Field: ruleset.IPSaddr, Value: addr("10.0.0.1"), Last: addr("10.0.3.9")},
		is(ruleset.Dport, ruleset.Port(port)), accept)
}

// theirsForExprs returns the expressions of the same rule.
func theirsForExprs(port uint16) []expr.Any {
	const to = unix.NFT_REG_1
	equal := func(value []byte) expr.Any { return &expr.Cmp{Register: to, Data: value} }
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: to}, equal([]byte{unix.NFPROTO_IPV4}),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: to}, equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Range{Register: to, FromData: []byte{10, 0, 0, 1}, ToData: []byte{10, 0, 3, 9}},
		&expr.Payload{DestRegister: to, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		equal(binary.BigEndian.AppendUint16(nil, port)),
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}

// marshalExprs encodes a list of expressions with the library.
func marshalExprs(to *netlink.Attrs, list []expr.Any) error {
	to.Reset()
	for _, e := range list {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			return err
		}
		elem := to.Begin(unix.NFTA_LIST_ELEM)
		to.Raw(data)
		to.End(elem)
	}
	return nil
}

// BenchmarkRuleExprs encodes the expressions of one rule, here and with google/nftables.
// docs/design.md has the figures.
func BenchmarkRuleExprs(b *testing.B) {
	e := encode.New(nfnl.NewBatch(), ruleset.FamilyINet, "own", nil)
	var attrs netlink.Attrs
	r := oursForExprs(80)
	ours, _ := e.Rule("c", 0, &r)
	require.NoError(b, e.Err())
	require.NoError(b, marshalExprs(&attrs, theirsForExprs(80)))
	theirs, err := attrs.Data()
	require.NoError(b, err)
	require.Equal(b, theirs, ours)
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Rule("c", 0, &r)
		}
	})
	b.Run("by=library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := marshalExprs(&attrs, theirsForExprs(80)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
