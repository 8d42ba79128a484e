// SPDX-License-Identifier: Apache-2.0

package ruleset

import "fmt"

// statementText returns the text of a statement. If a verdict map looks up a port, th is the
// keyword before it, such as "tcp"; empty means "th".
func statementText(family Family, s Statement, th string) string {
	switch s := s.(type) {
	case Verdict:
		return s.String()
	case VMap:
		if s.Map != "" {
			return fieldsText(s.Fields, th) + " vmap @" + s.Map
		}
		return fieldsText(s.Fields, th) + " vmap { " + elementsText(fieldTypes(s.Fields), nil, s.Elements, ", ") + " }"
	case Log:
		return s.text()
	case Limit:
		return s.text()
	case Counter:
		return "counter"
	case Reject:
		return s.text()
	case Notrack:
		return "notrack"
	case NAT:
		return s.text(family)
	case Assign:
		return s.text()
	case FlowAdd:
		return "flow add @" + s.Flowtable
	case Raw:
		return rawText(s)
	default:
		return "?"
	}
}

// String returns the verdict in nft syntax.
func (v Verdict) String() string {
	name := nameOf(v.Kind, "?", "accept", "drop", "return", "jump", "goto")
	if v.Kind == Jump || v.Kind == Goto {
		name += " " + v.Chain
	}
	return name
}

func (s Log) text() string {
	text := "log"
	if s.Prefix != "" {
		text += " prefix " + quote(s.Prefix)
	}
	if s.Group != nil {
		text += fmt.Sprintf(" group %d", *s.Group)
	}
	return text
}

func (s Limit) text() string {
	text := "limit rate "
	if s.Over {
		text += "over "
	}
	text += fmt.Sprintf("%d/%s", s.Rate, unitText(s.Per))
	if s.Burst != 0 {
		text += fmt.Sprintf(" burst %d packets", s.Burst)
	}
	return text
}

func (s Reject) text() string {
	switch s.Kind {
	case RejectTCPReset:
		return "reject with tcp reset"
	case RejectICMPX:
		return fmt.Sprintf("reject with icmpx %d", s.Code)
	default:
		return "reject"
	}
}

// String returns the translation's nft name.
func (k NATKind) String() string {
	return nameOf(k, "?", "snat", "dnat", "masquerade", "redirect")
}

func (s NAT) text(family Family) string {
	text := s.Kind.String()
	typ, v6 := TypeIPv4, s.Family == FamilyIPv6 || s.Family == FamilyINet && family == FamilyIPv6
	if v6 {
		typ = TypeIPv6
	}
	if family == FamilyINet && s.Family != FamilyINet && (s.Addr != nil || s.Map != "") {
		text += " " + s.Family.String()
	}
	switch {
	case s.Map != "":
		text += " to " + fieldsText(s.Fields, "") + " map @" + s.Map
	case s.Addr != nil || s.Port != 0:
		text += " to "
	}
	if s.Addr != nil {
		addr := valueText(typ, s.Addr)
		if v6 && s.Port != 0 {
			addr = "[" + addr + "]"
		}
		text += addr
	}
	if s.Port != 0 {
		text += fmt.Sprintf(":%d", s.Port)
		if s.PortLast != 0 && s.PortLast != s.Port {
			text += fmt.Sprintf("-%d", s.PortLast)
		}
	}
	return text
}

func (s Assign) text() string {
	text := s.Field.String() + " set "
	switch t := s.Field.Type(); {
	case s.Map != "":
		return text + fieldsText(s.Fields, "") + " map @" + s.Map
	case s.From != 0:
		return text + s.From.String()
	case s.Mask != 0 && s.Mask != ^uint32(0):
		text += fmt.Sprintf("%s & 0x%08x", s.Field, ^s.Mask)
		if s.Value != 0 {
			text += fmt.Sprintf(" | 0x%08x", s.Value)
		}
		return text
	default:
		return text + valueText(t, Uint32(s.Value))
	}
}
