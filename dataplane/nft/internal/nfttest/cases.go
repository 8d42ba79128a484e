// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldgen"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// NumberedCase is a section of testdata/cases/*.txtar. Its lines are resources, in the language of
// internal/worldtext, and flows, which are judged in the world that the lines above have made:
//
//	pass TCP 203.0.113.7 10.0.0.1 port 80 [sport 40000] [icmp 3/4] [dscp 46] [in eth1] [out eth1]
//	    [known|invalid] [was 198.51.100.1:30080]
//	drop ...
//	settings {"keepInvalid": true}
//
// The default of in and out is the interface of the workload with the address, none for an address of
// the node, otherwise eth0. Was is the destination before translation. Settings must come first. The
// lines of a section "world" come before those of every case of its file.
type NumberedCase struct {
	Name, text string
}

// NumberedCases reads the sections of DIR/cases/*.txtar.
func NumberedCases(t *testing.T, dir string) (out []NumberedCase) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "cases", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		common := ""
		for _, f := range txtar.Parse(data).Files {
			if f.Name == "world" {
				common = string(f.Data)
				continue
			}
			out = append(out, NumberedCase{f.Name, common + string(f.Data)})
		}
	}
	return out
}

// Run plays the case. Done is called with each world that flows were judged in.
func (n NumberedCase) Run(t *testing.T, classes render.ClassesConfig, done func(*Cluster)) {
	t.Helper()
	var host policy.HostConfig
	var c *Cluster
	var evaluator *verdict.Evaluator
	var ready *SimTable
	var updates []string
	judged := 0
	for _, line := range append(strings.Split(n.text, "\n"), "pass") { // the last ends what comes before
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "settings":
			require.Nil(t, c, "settings come first")
			require.NoError(t, json.Unmarshal([]byte(rest), &host))
			continue
		case word != "pass" && word != "drop":
			updates = append(updates, line)
			continue
		case c == nil:
			c = NewNode(t, render.Config{Classes: classes, InterfacePrefix: "wl", Host: host})
		}
		if len(updates) > 0 {
			parsed, _, err := worldtext.Parse(strings.Join(updates, "\n"))
			require.NoError(t, err)
			c.Play(t, parsed)
			evaluator, err = verdict.NewConfigured(c.Resources, c.Settings)
			require.NoError(t, err)
			ready, updates = NewSimTable(t, c.State.Table()), nil
			done(c)
		}
		if rest == "" {
			continue
		}
		judged++
		f, from, to := c.parseFlow(t, strings.Fields(rest))
		want := word == "pass"
		require.Equal(
			t, want, evaluator.Evaluate(f).Combined != verdict.Deny, "%s: the evaluator\n%s", line,
			evaluator.Explain(f),
		)
		got, _ := c.Simulate(t, ready, f, from, to)
		require.Equal(t, want, got, "%s\n%s", line, c.State.Table())
	}
	require.Positive(t, judged)
}

// parseFlow reads a flow, and says where it comes from and goes to.
func (c *Cluster) parseFlow(t *testing.T, words []string) (f verdict.Flow, from, to Place) {
	t.Helper()
	proto, err := policy.ParseProtocol(words[0])
	require.NoError(t, err)
	f = verdict.Flow{
		Node: worldgen.Node, Protocol: proto, Src: netip.MustParseAddr(words[1]), Dst: netip.MustParseAddr(words[2]),
		SrcPort: 40000,
	}
	from, to = c.placeOf(f.Src), c.placeOf(f.Dst)
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
			from = Place{Iface: value, Addr: f.Src}
		case "out":
			to = Place{Iface: value, Addr: f.Dst}
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

// placeOf is where an address is.
func (c *Cluster) placeOf(a netip.Addr) Place {
	for _, r := range c.Resources {
		if w, ok := r.(*policy.WorkloadEndpoint); ok && w.Node == worldgen.Node && slices.Contains(w.Addresses, a) {
			return Place{Iface: w.Interface, Addr: a}
		}
	}
	if slices.Contains(nodeAddrs(), a) {
		return Place{Addr: a, Own: true}
	}
	return Place{Iface: "eth0", Addr: a}
}
