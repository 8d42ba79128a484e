// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestWideInKernel: nft loads the text with every part of the model, and its listing equals the
// golden one. When nft loads that listing, it lists the same.
func TestWideInKernel(t *testing.T) {
	list := func(file string) string {
		ns := nstest.New(t)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		nstest.NFT(t, ns, string(text), "-f", "-")
		return canonical(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))
	}
	listed := list("testdata/wide.nft")
	if *update {
		require.NoError(t, os.WriteFile("testdata/wide-listed.nft", []byte(listed), 0o644))
	}
	want, err := os.ReadFile("testdata/wide-listed.nft")
	require.NoError(t, err)
	require.Equal(t, string(want), listed)
	require.Equal(t, listed, list("testdata/wide-listed.nft"))
}

// TestRandomScripts loads the differences between random tables with nft. New ranges overlap
// deleted ones in one transaction: the kernel (tested: Linux 6.18) checks the next generation, and
// accepts them.
func TestRandomScripts(t *testing.T) {
	taken := 0
	for seed := range uint64(4) {
		m := maker{rand.New(rand.NewPCG(seed, 7))}
		state := ruleset.NewState(ruleset.FamilyINet, "sample")
		ns := nstest.New(t)
		nstest.NFT(t, ns, "add table inet sample\n", "-f", "-")
		for step := range 60 {
			d := m.first()
			if step > 0 {
				d = m.delta(state.Table())
			}
			change, err := state.Prepare(d)
			if err != nil || len(change.Ops) == 0 {
				continue
			}
			script := ruleset.Script(change.Ops)
			nstest.NFT(t, ns, script, "-f", "-")
			state.Commit(change)
			require.Equal(
				t, listing(t, state.Table().String()), blocksOf(nstest.NFT(t, ns, "", "-s", "list", "ruleset")),
				"seed %d\n%s", seed, script,
			)
			taken++
		}
	}
	require.Greater(t, taken, 40)
}

// TestOverlapInOneTransaction: one transaction deletes a range and adds others that overlap it, and
// the reverse.
func TestOverlapInOneTransaction(t *testing.T) {
	table := func(elements ...ruleset.Element) *ruleset.Table {
		return &ruleset.Table{Name: "sample", Sets: []*ruleset.Set{
			{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Elements: elements},
		}}
	}
	wide := table(span(addr("10.0.0.0"), addr("10.255.255.255")), one(addr("12.0.0.1")))
	narrow := table(
		span(addr("10.0.0.0"), addr("10.0.255.255")), span(addr("10.255.0.0"), addr("12.0.0.0")),
		span(addr("12.0.0.1"), addr("12.0.0.2")),
	)
	for _, pair := range [][2]*ruleset.Table{{wide, narrow}, {narrow, wide}} {
		ns := nstest.New(t)
		nstest.NFT(t, ns, pair[0].String(), "-f", "-")
		nstest.NFT(t, ns, script(t, pair[0], pair[1]), "-f", "-")
		require.Equal(t, listing(t, pair[1].String()), blocksOf(nstest.NFT(t, ns, "", "-s", "list", "ruleset")))
	}
}

// TestKernelNumbers: the descriptions of fields have the numbers of the kernel's headers.
func TestKernelNumbers(t *testing.T) {
	for f, key := range map[ruleset.Field]int{
		ruleset.Protocol: unix.NFT_META_PROTOCOL, ruleset.Priority: unix.NFT_META_PRIORITY,
		ruleset.Mark: unix.NFT_META_MARK, ruleset.IIFName: unix.NFT_META_IIFNAME,
		ruleset.OIFName: unix.NFT_META_OIFNAME, ruleset.NFProto: unix.NFT_META_NFPROTO,
		ruleset.L4Proto: unix.NFT_META_L4PROTO,
		ruleset.CtState: unix.NFT_CT_STATE, ruleset.CtDirection: unix.NFT_CT_DIRECTION,
		ruleset.CtStatus: unix.NFT_CT_STATUS, ruleset.CtMark: unix.NFT_CT_MARK,
		ruleset.CtOriginalSaddr: unix.NFT_CT_SRC_IP, ruleset.CtOriginalDaddr: unix.NFT_CT_DST_IP,
		ruleset.CtReplySaddr6: unix.NFT_CT_SRC_IP6, ruleset.CtReplyDaddr6: unix.NFT_CT_DST_IP6,
		ruleset.CtOriginalDport: unix.NFT_CT_PROTO_DST,
		ruleset.FibSource:       unix.NFT_FIB_RESULT_OIF, ruleset.FibDaddrType: unix.NFT_FIB_RESULT_ADDRTYPE,
	} {
		require.Equal(t, uint32(key), f.Load().Key, "%s", f)
	}
	require.Equal(
		t, uint32(unix.NFTA_FIB_F_SADDR|unix.NFTA_FIB_F_IIF|unix.NFTA_FIB_F_PRESENT),
		ruleset.FibSource.Load().Flags,
	)
	for f, number := range map[ruleset.Family]int{
		ruleset.FamilyINet: unix.NFPROTO_INET, ruleset.FamilyIPv4: unix.NFPROTO_IPV4,
		ruleset.FamilyIPv6:   unix.NFPROTO_IPV6,
		ruleset.FamilyBridge: unix.NFPROTO_BRIDGE,
	} {
		require.Equal(t, uint8(number), f.Number())
	}
	for _, f := range ruleset.Fields() {
		require.NotEmpty(t, f.String())
		require.NotZero(t, f.Type().Size(), "%s", f)
		require.NotZero(t, f.Load().Origin, "%s", f)
	}
}
