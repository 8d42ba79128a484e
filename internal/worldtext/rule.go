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

// header parses the fields of a HeaderMatch. Their keys are their names in lower case. The numbers
// of a list are separated by commas. Those of a struct are separated by slashes, and the last may
// be missing: "3/4".
func (f *fields) header(m reflect.Value) {
	for i := range m.NumField() {
		name, field := strings.ToLower(m.Type().Field(i).Name), m.Field(i)
		if field.Kind() == reflect.Slice {
			for _, text := range f.list(name) {
				n := reflect.New(field.Type().Elem()).Elem()
				f.number(text, n)
				field.Set(reflect.Append(field, n))
			}
			continue
		}
		if !f.has(name) {
			continue
		}
		field.Set(reflect.New(field.Type().Elem()))
		for j, text := range strings.SplitN(f.get(name), "/", field.Elem().NumField()) {
			f.number(text, field.Elem().Field(j))
		}
	}
}

// number parses a number. Its field may be a pointer.
func (f *fields) number(text string, to reflect.Value) {
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		f.number(text, to.Elem())
	case reflect.Int:
		to.SetInt(int64(read(f, text, strconv.Atoi)))
	default:
		to.SetUint(read(f, text, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, to.Type().Bits()) }))
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
