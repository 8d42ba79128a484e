// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"math"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

const (
	maxProtocol = math.MaxUint8
	maxPort     = math.MaxUint16
	maxICMPType = 254
	maxICMPCode = 255
)

// encodeRules encodes a list. It makes one allocation for all rules, and one for all matches.
func encodeRules(c *cursor, name string, rules []dataplane.Rule) []*wirepb.Rule {
	if len(rules) == 0 {
		return nil
	}
	sides := 0
	for i := range rules {
		for _, side := range []*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
			if !isZero(side) {
				sides++
			}
		}
	}
	messages, out := make([]wirepb.Rule, len(rules)), make([]*wirepb.Rule, len(rules))
	matches := make([]wirepb.Match, sides)
	for i := range rules {
		c.enterItem(name, i)
		r, m := &rules[i], &messages[i]
		m.Id, m.Action = r.ID, encodeAction(c, "action", r.Action)
		m.IpVersion = encodeIPVersion(c, "ip_version", r.IPVersion)
		m.Protocol, m.NotProtocol = uint32(r.Protocol), uint32(r.NotProtocol)
		m.Icmp, m.NotIcmp = encodeICMP(c, "icmp", r.ICMP), encodeICMP(c, "not_icmp", r.NotICMP)
		m.Dscp, m.NotDscp = encodeDSCP(r.DSCP), encodeDSCP(r.NotDSCP)
		if !isZero(&r.Source) {
			m.Source, matches = &matches[0], matches[1:]
			fillMatch(c, "source", m.Source, &r.Source)
		}
		if !isZero(&r.Destination) {
			m.Destination, matches = &matches[0], matches[1:]
			fillMatch(c, "destination", m.Destination, &r.Destination)
		}
		out[i] = m
		c.leave()
	}
	return out
}

func decodeRule(c *cursor, m *wirepb.Rule, r *dataplane.Rule) {
	r.ID, r.Action = m.GetId(), decodeAction(c, "action", m.GetAction())
	r.IPVersion = ipVersion(c, "ip_version", m.GetIpVersion(), true)
	r.Protocol = number[policy.Protocol](c, "protocol", m.GetProtocol(), 0, maxProtocol)
	r.NotProtocol = number[policy.Protocol](c, "not_protocol", m.GetNotProtocol(), 0, maxProtocol)
	r.ICMP, r.NotICMP = decodeICMP(c, "icmp", m.GetIcmp()), decodeICMP(c, "not_icmp", m.GetNotIcmp())
	r.DSCP, r.NotDSCP = decodeDSCP(c, "dscp", m.GetDscp()), decodeDSCP(c, "not_dscp", m.GetNotDscp())
	decodeMatch(c, "source", m.GetSource(), &r.Source)
	decodeMatch(c, "destination", m.GetDestination(), &r.Destination)
}

func encodeAction(c *cursor, name string, a policy.Action) wirepb.Action {
	switch a {
	case policy.Allow:
		return wirepb.Action_ACTION_ALLOW
	case policy.Deny:
		return wirepb.Action_ACTION_DENY
	case policy.Pass:
		return wirepb.Action_ACTION_PASS
	case policy.Log:
		return wirepb.Action_ACTION_LOG
	}
	c.failIn(name, "unknown action %q", string(a))
	return wirepb.Action_ACTION_UNSPECIFIED
}

func decodeAction(c *cursor, name string, a wirepb.Action) policy.Action {
	switch a {
	case wirepb.Action_ACTION_ALLOW:
		return policy.Allow
	case wirepb.Action_ACTION_DENY:
		return policy.Deny
	case wirepb.Action_ACTION_PASS:
		return policy.Pass
	case wirepb.Action_ACTION_LOG:
		return policy.Log
	}
	c.failIn(name, "unknown value %d", int32(a))
	return policy.Deny
}

// encodeICMP encodes an ICMP match. A match without a type is an error: a message always has a
// type, and a rule without the match would match more packets.
func encodeICMP(c *cursor, name string, i *policy.ICMP) *wirepb.ICMP {
	if i == nil {
		return nil
	}
	m := &wirepb.ICMP{}
	switch {
	case i.Type == nil:
		c.failIn(name, "no type")
	case *i.Type < 0 || *i.Type > maxICMPType:
		c.failIn(name, "type %d, want 0 to %d", *i.Type, maxICMPType)
	default:
		m.Type = uint32(*i.Type)
	}
	if i.Code != nil {
		if *i.Code < 0 || *i.Code > maxICMPCode {
			c.failIn(name, "code %d, want 0 to %d", *i.Code, maxICMPCode)
		}
		code := uint32(*i.Code)
		m.Code = &code
	}
	return m
}

func decodeICMP(c *cursor, name string, m *wirepb.ICMP) *policy.ICMP {
	if m == nil {
		return nil
	}
	c.enter(name)
	defer c.leave()
	typ := number[int](c, "type", m.GetType(), 0, maxICMPType)
	i := &policy.ICMP{Type: &typ}
	if m.Code != nil {
		code := number[int](c, "code", m.GetCode(), 0, maxICMPCode)
		i.Code = &code
	}
	return i
}

func encodeDSCP(list []policy.DSCP) []byte {
	if len(list) == 0 {
		return nil
	}
	out := make([]byte, len(list))
	for i, v := range list {
		out[i] = byte(v)
	}
	return out
}

func decodeDSCP(c *cursor, name string, data []byte) []policy.DSCP {
	if len(data) == 0 {
		return nil
	}
	out := make([]policy.DSCP, len(data))
	for i, v := range data {
		if out[i] = policy.DSCP(v); out[i] > policy.MaxDSCP {
			c.enterItem(name, i)
			c.fail("%d, want 0 to %d", v, policy.MaxDSCP)
			c.leave()
		}
	}
	return out
}

// isZero reports whether a side matches every address and port.
func isZero(m *dataplane.Match) bool {
	return len(m.Nets)+len(m.NotNets)+len(m.Sets)+len(m.NotSets)+
		len(m.Ports)+len(m.PortSets)+len(m.NotPorts)+len(m.NotPortSets) == 0
}

func fillMatch(c *cursor, name string, m *wirepb.Match, side *dataplane.Match) {
	c.enter(name)
	m.Nets, m.NotNets = encodePrefixes(c, "nets", side.Nets), encodePrefixes(c, "not_nets", side.NotNets)
	m.Sets, m.NotSets = encodeIDs(side.Sets), encodeIDs(side.NotSets)
	m.Ports, m.NotPorts = encodePorts(c, "ports", side.Ports), encodePorts(c, "not_ports", side.NotPorts)
	m.PortSets, m.NotPortSets = encodeIDs(side.PortSets), encodeIDs(side.NotPortSets)
	c.leave()
}

func decodeMatch(c *cursor, name string, m *wirepb.Match, side *dataplane.Match) {
	if m == nil {
		return
	}
	c.enter(name)
	side.Nets = decodeList(c, "nets", m.GetNets(), decodePrefix)
	side.NotNets = decodeList(c, "not_nets", m.GetNotNets(), decodePrefix)
	side.Sets = decodeList(c, "sets", m.GetSets(), decodeName[dataplane.IPSetID])
	side.NotSets = decodeList(c, "not_sets", m.GetNotSets(), decodeName[dataplane.IPSetID])
	side.Ports = decodeList(c, "ports", m.GetPorts(), decodePort)
	side.PortSets = decodeList(c, "port_sets", m.GetPortSets(), decodeName[dataplane.IPSetID])
	side.NotPorts = decodeList(c, "not_ports", m.GetNotPorts(), decodePort)
	side.NotPortSets = decodeList(c, "not_port_sets", m.GetNotPortSets(), decodeName[dataplane.IPSetID])
	c.leave()
}

func encodeIDs(ids []dataplane.IPSetID) []string {
	if len(ids) == 0 {
		return nil
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// encodePorts encodes ranges of ports. A named port is an error: the graph resolves named ports to
// sets.
func encodePorts(c *cursor, name string, ports []policy.Port) []*wirepb.PortRange {
	if len(ports) == 0 {
		return nil
	}
	messages, out := make([]wirepb.PortRange, len(ports)), make([]*wirepb.PortRange, len(ports))
	for i, p := range ports {
		if p.Name != "" {
			c.enterItem(name, i)
			c.fail("port %q has a name", p.Name)
			c.leave()
		}
		messages[i].First, messages[i].Last = uint32(p.First), uint32(p.Last)
		out[i] = &messages[i]
	}
	return out
}

func decodePort(c *cursor, m *wirepb.PortRange, out *policy.Port) {
	out.First = number[uint16](c, "first", m.GetFirst(), 1, maxPort)
	out.Last = number[uint16](c, "last", m.GetLast(), 1, maxPort)
	if out.First > out.Last {
		c.fail("range from %d to %d", out.First, out.Last)
	}
}
