// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// parseRule adds a rule to a policy or profile.
func parseRule(owner policy.Resource, words []string) error {
	f, err := parseFields(words[2:])
	if err != nil {
		return err
	}
	rule := policy.Rule{
		Action:      policy.Action(strings.TrimPrefix(words[1], "-")),
		Protocol:    one(f, "proto", policy.ParseProtocol),
		NotProtocol: one(f, "notproto", policy.ParseProtocol),
		ICMP:        one(f, "icmp", parseICMP),
		NotICMP:     one(f, "noticmp", parseICMP),
		IPVersion:   one(f, "ip", strconv.Atoi),
		Source:      f.side("src"),
		Destination: f.side("dst"),
	}
	f.header(reflect.ValueOf(&rule.HeaderMatch).Elem())
	if f.err != nil {
		return f.err
	}
	var ingress, egress *[]policy.Rule
	switch o := owner.(type) {
	case *policy.Policy:
		ingress, egress = &o.Ingress, &o.Egress
	case *policy.Profile:
		ingress, egress = &o.Ingress, &o.Egress
	default:
		return fmt.Errorf("a %T has no rules", owner)
	}
	switch words[0] {
	case "ingress":
		*ingress = append(*ingress, rule)
	case "egress":
		*egress = append(*egress, rule)
	default:
		return fmt.Errorf("no direction %q", words[0])
	}
	return nil
}

// parseICMP reads a type, and a code if there is one, as in "3/4".
func parseICMP(s string) (*policy.ICMP, error) {
	first, second, both := strings.Cut(s, "/")
	typ, err := strconv.Atoi(first)
	if err != nil || !both {
		return &policy.ICMP{Type: &typ}, err
	}
	code, err := strconv.Atoi(second)
	return &policy.ICMP{Type: &typ, Code: &code}, err
}

// header reads the fields of a HeaderMatch, which are lists of numbers. Their keys are their names in
// lower case.
func (f *fields) header(m reflect.Value) {
	for i := range m.NumField() {
		list := m.Field(i)
		number := func(s string) (uint64, error) { return strconv.ParseUint(s, 10, list.Type().Elem().Bits()) }
		for _, n := range all(f, strings.ToLower(m.Type().Field(i).Name), number) {
			list.Set(reflect.Append(list, reflect.ValueOf(n).Convert(list.Type().Elem())))
		}
	}
}

func (f *fields) side(side string) policy.EntityRule {
	e := policy.EntityRule{
		Selector:          f.get(side),
		NotSelector:       f.get(side + ".not"),
		NamespaceSelector: f.get(side + ".ns"),
		Nets:              f.nets(side + ".nets"),
		NotNets:           f.nets(side + ".notnets"),
		Ports:             all(f, side+".ports", parsePort),
		NotPorts:          all(f, side+".notports", parsePort),
	}
	if svc := f.get(side + ".svc"); svc != "" {
		e.Services = &policy.ServiceMatch{Name: svc}
		if namespace, name, ok := strings.Cut(svc, "/"); ok {
			e.Services = &policy.ServiceMatch{Namespace: namespace, Name: name}
		}
	}
	if names := f.list(side + ".sa"); names != nil {
		e.ServiceAccounts = &policy.ServiceAccounts{Names: names}
	}
	return e
}
