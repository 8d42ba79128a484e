// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// TestPackets runs the packets of every recorded case through the rendered table, in both
// directions.
func TestPackets(t *testing.T) { nfttest.EachFormInParallel(t, testPackets) }

func testPackets(t *testing.T, classes render.ClassesConfig) {
	f, err := os.Open("testdata/packets.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); count++ {
		var c nfttest.PacketCase
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&c))
		t.Run(c.Name, func(t *testing.T) {
			require.Equal(t, "workload", c.Suite)
			table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(c.State(t)))
			require.Empty(t, errs)
			for i, p := range c.Packets {
				sp := simPacket{
					Src: p.Src, Dst: p.Dst, Proto: p.Proto, CT: ruleset.CtNew, Transport: make([]byte, 8),
				}
				switch policy.Protocol(p.Proto) {
				case policy.ProtocolTCP, policy.ProtocolUDP:
					sp.Transport = nfttest.Ports(p.SrcPort, p.DstPort)
				case policy.ProtocolICMP, policy.ProtocolICMPv6:
					sp.Transport = nfttest.ICMPHeader(p.ICMPType, p.ICMPCode)
				}
				for _, dir := range []string{"ingress", "egress"} {
					sp.IIF, sp.OIF = "eth0", "way1"
					if dir == "egress" {
						sp.IIF, sp.OIF = "way1", "eth0"
					}
					allowed, _ := judgePacket(t, table, ruleset.Forward, sp)
					require.Equal(t, p.Verdict == "allow", allowed, "%s packet %d\n%s", dir, i, table)
				}
			}
		})
	}
	require.Equal(t, 44, count)
}
