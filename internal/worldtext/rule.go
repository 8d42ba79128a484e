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
	fields, err := parseFields(words[2:])
	if err != nil {
		return err
	}
	rule := policy.Rule{Action: policy.Action(strings.TrimPrefix(words[1], "-"))}
	for key, p := range map[string]*policy.Protocol{"proto": &rule.Protocol, "notproto": &rule.NotProtocol} {
		if s := fields.get(key); s != "" {
			if *p, err = policy.ParseProtocol(s); err != nil {
				return err
			}
		}
	}
	for key, p := range map[string]**policy.ICMP{"icmp": &rule.ICMP, "noticmp": &rule.NotICMP} {
		if s := fields.get(key); s != "" {
			if *p, err = parseICMP(s); err != nil {
				return err
			}
		}
	}
	if err := parseHeader(reflect.ValueOf(&rule.HeaderMatch).Elem(), fields); err != nil {
		return err
	}
	if s := fields.get("ip"); s != "" {
		if rule.IPVersion, err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	if rule.Source, err = parseSide("src", fields); err != nil {
		return err
	}
	if rule.Destination, err = parseSide("dst", fields); err != nil {
		return err
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

// parseHeader reads the fields of a HeaderMatch, which are lists of numbers. Their keys are their
// names in lower case.
func parseHeader(m reflect.Value, fields fields) error {
	for i := range m.NumField() {
		for _, s := range fields.list(strings.ToLower(m.Type().Field(i).Name)) {
			n := reflect.New(m.Field(i).Type().Elem()).Elem()
			v, err := strconv.ParseUint(s, 10, n.Type().Bits())
			if err != nil {
				return err
			}
			n.SetUint(v)
			m.Field(i).Set(reflect.Append(m.Field(i), n))
		}
	}
	return nil
}

func parseSide(side string, fields fields) (policy.EntityRule, error) {
	e := policy.EntityRule{
		Selector:          fields.get(side),
		NotSelector:       fields.get(side + ".not"),
		NamespaceSelector: fields.get(side + ".ns"),
	}
	if svc := fields.get(side + ".svc"); svc != "" {
		e.Services = &policy.ServiceMatch{Name: svc}
		if namespace, name, ok := strings.Cut(svc, "/"); ok {
			e.Services = &policy.ServiceMatch{Namespace: namespace, Name: name}
		}
	}
	if names := fields.list(side + ".sa"); names != nil {
		e.ServiceAccounts = &policy.ServiceAccounts{Names: names}
	}
	var err error
	if e.Nets, err = parseNets(fields.list(side + ".nets")); err != nil {
		return e, err
	}
	if e.NotNets, err = parseNets(fields.list(side + ".notnets")); err != nil {
		return e, err
	}
	if e.Ports, err = parsePorts(fields.list(side + ".ports")); err != nil {
		return e, err
	}
	e.NotPorts, err = parsePorts(fields.list(side + ".notports"))
	return e, err
}
