// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// forward is a port of this machine, and the address and port that it is forwarded to.
type forward struct {
	protocol byte // TCP or UDP, as in the IP header
	port     uint16
	to       netip.AddrPort
}

// parse reads the forwards in a file, one on each line. "#" begins a comment. The error is a join
// of one error for each invalid line.
func parse(file, text string) (all []forward, err error) {
	type key struct {
		protocol byte
		port     uint16
		ipv6     bool
	}
	lines, number := map[key]int{}, 0
	var problems []error
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f, err := parseForward(words)
		k := key{f.protocol, f.port, f.to.Addr().Is6()}
		if other, ok := lines[k]; ok && err == nil {
			err = fmt.Errorf("%s %s is forwarded by line %d already", words[0], words[1], other)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		lines[k] = number
		all = append(all, f)
	}
	return all, errors.Join(problems...)
}

func parseForward(words []string) (f forward, err error) {
	if len(words) != 3 {
		return forward{}, fmt.Errorf("%d words, want three: a protocol, a port, and a target", len(words))
	}
	switch words[0] {
	case "tcp":
		f.protocol = 6
	case "udp":
		f.protocol = 17
	default:
		return forward{}, fmt.Errorf("protocol %q, want tcp or udp", words[0])
	}
	port, err := strconv.ParseUint(words[1], 10, 16)
	if err != nil || port == 0 {
		return forward{}, fmt.Errorf("port %q, want 1 to 65535", words[1])
	}
	f.port = uint16(port)
	f.to, err = netip.ParseAddrPort(words[2])
	if err != nil || f.to.Port() == 0 || f.to.Addr().Is4In6() || f.to.Addr().Zone() != "" {
		const want = "an address and a port, as 10.0.0.2:80 or [2001:db8::2]:80"
		return forward{}, fmt.Errorf("target %q, want %s", words[2], want)
	}
	return f, nil
}

// newTable returns the desired table. For each IP version, it has a map from protocol and port to
// address and port, and a rule that uses the map.
func newTable(name string, forwards []forward) *ruleset.Table {
	key := []ruleset.Type{ruleset.TypeProto, ruleset.TypeService}
	to4 := &ruleset.Set{Name: "to4", Key: key, Data: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}}
	to6 := &ruleset.Set{Name: "to6", Key: key, Data: []ruleset.Type{ruleset.TypeIPv6, ruleset.TypeService}}
	for _, f := range forwards {
		to := to4
		if f.to.Addr().Is6() {
			to = to6
		}
		to.Elements = append(to.Elements, ruleset.Element{
			Key:  []ruleset.Value{ruleset.Byte(f.protocol), ruleset.Port(f.port)},
			Data: []ruleset.Value{ruleset.Addr(f.to.Addr()), ruleset.Port(f.to.Port())},
		})
	}
	return &ruleset.Table{
		Name: name,
		Sets: []*ruleset.Set{to4, to6},
		Chains: []*ruleset.Chain{{
			Name: "prerouting",
			Hook: &ruleset.Hook{
				Type: ruleset.HookNAT, Point: ruleset.Prerouting, Priority: -100, // nft's "dstnat"
				Policy: ruleset.Verdict{Kind: ruleset.Accept},
			},
			Rules: []ruleset.Rule{
				translate(ruleset.NFProtoIPv4, ruleset.FamilyIPv4, to4.Name),
				translate(ruleset.NFProtoIPv6, ruleset.FamilyIPv6, to6.Name),
			},
		}},
	}
}

// translate returns the rule of one IP version. It does not match packets to other machines.
func translate(version byte, family ruleset.Family, to string) ruleset.Rule {
	return ruleset.Rule{
		Matches: []ruleset.Match{
			ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(version)},
			ruleset.Compare{Field: ruleset.FibDaddrType, Value: ruleset.Uint32(ruleset.FibTypeLocal)},
		},
		Statements: []ruleset.Statement{ruleset.NAT{
			Kind: ruleset.DNAT, Family: family,
			Fields: []ruleset.Field{ruleset.L4Proto, ruleset.Dport}, Map: to,
		}},
	}
}
