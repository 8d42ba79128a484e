// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

// judgeCase has the verdicts of packets in a small world. Its lines are resources, in the language
// of package worldtext, and packets, which are judged in the world of the lines above:
//
//	pass TCP 203.0.113.7 10.0.0.1 port 80 [sport 4000] [dscp 46]
//	drop ICMP 203.0.113.7 10.0.0.1 icmp 8/0
//
// Local endpoints are w1, w2 and w3.
type judgeCase struct {
	// name begins with the number in docs/semantics.md, and then states the property.
	name string
	text string
	// state, if set, returns the state in which all packets are judged, instead of resources. No
	// resources give such a state.
	state func(interfaces [3]string) dptest.State
}

// caseStep is a batch of a case and the packets that are judged after it.
type caseStep struct {
	updates []policy.Update
	packets []casePacket
}

type casePacket struct {
	packet  dptest.Packet
	allowed bool
}

// cases returns all cases.
func cases() []judgeCase {
	return slices.Concat(
		orderCases(), actionCases(), endCases(), portCases(), protocolCases(), netCases(), setCases(), stateCases(),
	)
}

// common is the world with which every case begins. The endpoint w1 (app=web) receives, w2
// (app=cli) is on the same node, and far is on another node. bad is a network set.
const common = `
profile open
  ingress Allow
  egress Allow
tier sec order 1
tier app order 2
endpoint shop/w1 addrs 10.0.0.1,fd00::1 labels app=web profiles open ports http=TCP:80
endpoint shop/w2 addrs 10.0.0.2,fd00::2 labels app=cli,role=fe profiles open ports http=TCP:8080,dns=UDP:53
endpoint shop/far node n2 addrs 10.0.1.1,fd00:1::1 labels app=far,role=fe,env=prod ports http=TCP:81
netset bad labels role=bad nets 203.0.113.0/28,2001:db8::/64
`

// parse reads the case. The local endpoints w1, w2 and w3 get the interfaces.
func (c judgeCase) parse(interfaces [3]string) ([]caseStep, error) {
	var steps []caseStep
	var resources []string
	for line := range strings.Lines(common + c.text) {
		line = strings.TrimRight(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		if word != "pass" && word != "drop" {
			resources = append(resources, line)
			continue
		}
		if len(resources) > 0 {
			list, _, err := worldtext.Parse(strings.Join(resources, "\n"))
			if err != nil {
				return nil, err
			}
			for _, u := range list {
				assignInterface(u.Resource, interfaces)
			}
			steps = append(steps, caseStep{updates: list})
			resources = nil
		}
		p, err := parsePacket(strings.Fields(rest))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		last := &steps[len(steps)-1]
		last.packets = append(last.packets, casePacket{p, word == "pass"})
	}
	return steps, nil
}

// assignInterface sets the interface of an endpoint w1, w2 or w3.
func assignInterface(r policy.Resource, interfaces [3]string) {
	w, ok := r.(*policy.WorkloadEndpoint)
	if !ok {
		return
	}
	for i, iface := range interfaces {
		if w.Name == fmt.Sprintf("w%d", i+1) {
			w.Interface = iface
		}
	}
}

// parsePacket reads the words after pass or drop.
func parsePacket(words []string) (p dptest.Packet, err error) {
	if len(words) < 3 || len(words)%2 == 0 {
		return p, fmt.Errorf("want a protocol, two addresses, and keys with values")
	}
	if p.Protocol, err = policy.ParseProtocol(words[0]); err != nil {
		return p, err
	}
	if p.Src, err = netip.ParseAddr(words[1]); err != nil {
		return p, err
	}
	if p.Dst, err = netip.ParseAddr(words[2]); err != nil {
		return p, err
	}
	if p.Protocol.HasPorts() {
		p.SrcPort = 4000
	}
	for pair := range slices.Chunk(words[3:], 2) {
		text, code, _ := strings.Cut(pair[1], "/")
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return p, err
		}
		switch pair[0] {
		case "port":
			p.DstPort = uint16(n)
		case "sport":
			p.SrcPort = uint16(n)
		case "icmp":
			c, err := strconv.ParseUint(code, 10, 8)
			if err != nil {
				return p, err
			}
			p.ICMPType, p.ICMPCode = uint8(n), uint8(c)
		default:
			if !setHeader(&p.Header, pair[0], n) {
				return p, fmt.Errorf("unknown key %q, or a value that no packet has", pair[0])
			}
		}
	}
	return p, nil
}
