// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// TestNumberedCases compares the verdicts of the rendered table and of the reference evaluator on
// the flows of each case.
func TestNumberedCases(t *testing.T) { nfttest.EachFormInParallel(t, testNumberedCases) }

func testNumberedCases(t *testing.T, classes render.ClassesConfig) {
	for _, n := range nfttest.NumberedCases(t, "testdata") {
		t.Run(n.Name, func(t *testing.T) {
			var evaluator *verdict.Evaluator
			var ready *simTable
			n.Run(t, classes, func(c *nfttest.Cluster) {
				var err error
				evaluator, err = verdict.NewConfigured(c.Resources, c.Settings)
				require.NoError(t, err)
				ready = newSimTable(t, c.State.Table())
			}, func(c *nfttest.Cluster, line string) {
				words := strings.Fields(line)
				f, from, to := parseFlow(t, c, words[1:])
				want := words[0] == "pass"
				require.Equal(
					t, want, evaluator.Evaluate(f).Combined != verdict.Deny, "%s: the evaluator\n%s", line,
					evaluator.Explain(f),
				)
				got, _ := simulateFlow(t, ready, f, from, to)
				require.Equal(t, want, got, "%s\n%s", line, c.State.Table())
			})
		})
	}
}

// TestEveryCaseIsNamed: the cases of this package and those of host endpoints cover all numbered
// cases of selection, actions, matching and hosts that flows can test. The others are tested by
// scripts of the graph.
func TestEveryCaseIsNamed(t *testing.T) {
	named := map[int]bool{}
	number := regexp.MustCompile(`S(\d+)`)
	note := func(name string) {
		for _, m := range number.FindAllStringSubmatch(name, -1) {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			named[n] = true
		}
	}
	for _, n := range nfttest.NumberedCases(t, "testdata") {
		note(n.Name)
	}
	for _, h := range hostCases() {
		note(h.name)
	}
	for _, section := range [][2]int{{1, 78}, {103, 124}, {167, 167}, {176, 176}} {
		for n := section[0]; n <= section[1]; n++ {
			require.True(t, named[n], fmt.Sprintf("S%d", n))
		}
	}
}

// parseFlow reads a flow, and returns its two ends.
func parseFlow(t *testing.T, c *nfttest.Cluster, words []string) (f verdict.Flow, from, to nfttest.FlowEnd) {
	t.Helper()
	proto, err := policy.ParseProtocol(words[0])
	require.NoError(t, err)
	f = verdict.Flow{
		Node: worlds.Node, Protocol: proto, Src: netip.MustParseAddr(words[1]), Dst: netip.MustParseAddr(words[2]),
		SrcPort: 40000,
	}
	from, to = endOf(c, f.Src), endOf(c, f.Dst)
	for i := 3; i < len(words); i++ {
		switch words[i] {
		case "known":
			f.State = verdict.StateEstablished
			continue
		case "invalid":
			f.State = verdict.StateInvalid
			continue
		}
		i++
		value := words[i]
		switch words[i-1] {
		case "port":
			f.DstPort = number[uint16](t, value)
		case "sport":
			f.SrcPort = number[uint16](t, value)
		case "icmp":
			typ, code, _ := strings.Cut(value, "/")
			f.ICMPType, f.ICMPCode = number[uint8](t, typ), number[uint8](t, code)
		case "dscp":
			f.DSCP = policy.DSCP(number[uint8](t, value))
		case "in":
			from = nfttest.FlowEnd{Iface: value, Addr: f.Src}
		case "out":
			to = nfttest.FlowEnd{Iface: value, Addr: f.Dst}
		case "was":
			was := netip.MustParseAddrPort(value)
			f.OrigDst, f.OrigDstPort = was.Addr(), was.Port()
		default:
			t.Fatalf("no %q in flows", words[i-1])
		}
	}
	if !f.Protocol.HasPorts() {
		f.SrcPort, f.DstPort = 0, 0
	}
	f.InInterface, f.OutInterface = from.Iface, to.Iface
	return f, from, to
}

func number[T uint8 | uint16](t *testing.T, s string) T {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 16)
	require.NoError(t, err)
	require.EqualValues(t, n, T(n))
	return T(n)
}

// endOf returns the end with an address.
func endOf(c *nfttest.Cluster, a netip.Addr) nfttest.FlowEnd {
	for _, r := range c.Resources {
		if w, ok := r.(*policy.WorkloadEndpoint); ok && w.Node == worlds.Node && slices.Contains(w.Addresses, a) {
			return nfttest.FlowEnd{Iface: w.Interface, Addr: a}
		}
	}
	if slices.Contains(nfttest.NodeAddrs(), a) {
		return nfttest.FlowEnd{Addr: a, Own: true}
	}
	return nfttest.FlowEnd{Iface: "eth0", Addr: a}
}
