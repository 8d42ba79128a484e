// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// fields are the keys and values of a line. Flags have the value "yes".
type fields struct {
	values map[string]string
	err    error // the first error of a value that cannot be parsed
}

func parseFields(words []string) (*fields, error) {
	f := &fields{values: map[string]string{}}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "staged", "always", "down", "forward", "untracked", "prednat", "nat", "disabled":
			f.values[word] = "yes"
		default:
			if i++; i == len(words) {
				return f, fmt.Errorf("%s has no value", word)
			}
			f.values[word] = words[i]
		}
	}
	return f, nil
}

func (f *fields) get(key string) string { return f.values[key] }

func (f *fields) has(key string) bool { return f.get(key) != "" }

func (f *fields) list(key string) []string {
	if !f.has(key) {
		return nil
	}
	return strings.Split(f.get(key), ",")
}

func (f *fields) labels() map[string]string {
	out := map[string]string{}
	for _, pair := range f.list("labels") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = v
	}
	return out
}

// order returns the order of a tier or policy; nil if it has none.
func (f *fields) order() *float64 {
	if !f.has("order") {
		return nil
	}
	order := read(f, f.get("order"), parseOrder)
	return &order
}

func parseOrder(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

// read returns the result of parse, and keeps its error for the line.
func read[T any](f *fields, s string, parse func(string) (T, error)) T {
	v, err := parse(s)
	if err != nil && f.err == nil {
		f.err = err
	}
	return v
}

// one parses the value of a key, if there is one.
func one[T any](f *fields, key string, parse func(string) (T, error)) (v T) {
	if f.has(key) {
		v = read(f, f.get(key), parse)
	}
	return v
}

// all parses the values of a key.
func all[T any](f *fields, key string, parse func(string) (T, error)) (out []T) {
	for _, s := range f.list(key) {
		out = append(out, read(f, s, parse))
	}
	return out
}

func (f *fields) nets(key string) policy.Nets { return all(f, key, policy.ParseNet) }

func (f *fields) addrs(key string) []netip.Addr { return all(f, key, netip.ParseAddr) }

// parsePort also accepts 0, which is invalid.
func parsePort(s string) (policy.Port, error) {
	if s == "0" {
		return policy.PortNumber(0), nil
	}
	return policy.ParsePort(s)
}

// parseEndpointPort parses a port such as "http=TCP:80".
func parseEndpointPort(s string) (policy.EndpointPort, error) {
	name, rest, _ := strings.Cut(s, "=")
	port, err := parseServicePort(rest)
	return policy.EndpointPort{Name: name, Protocol: port.Protocol, Port: port.Port}, err
}

// parseServicePort parses "TCP:80".
func parseServicePort(s string) (policy.ServicePort, error) {
	proto, number, _ := strings.Cut(s, ":")
	p, err := policy.ParseProtocol(proto)
	if err != nil {
		return policy.ServicePort{}, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return policy.ServicePort{Protocol: p, Port: uint16(n)}, err
}

// parseNAT parses "192.0.2.1=10.0.0.1".
func parseNAT(s string) (n policy.IPNAT, err error) {
	external, internal, _ := strings.Cut(s, "=")
	if n.ExternalIP, err = netip.ParseAddr(external); err != nil {
		return n, err
	}
	n.InternalIP, err = netip.ParseAddr(internal)
	return n, err
}

// parseBorrowed parses "10.0.1.2=n3".
func parseBorrowed(s string) (policy.BorrowedAddress, error) {
	text, node, _ := strings.Cut(s, "=")
	addr, err := netip.ParseAddr(text)
	return policy.BorrowedAddress{Address: addr, Node: node}, err
}

// parseSubnet parses an address with or without the prefix length of its subnet.
func parseSubnet(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	a, err := netip.ParseAddr(s)
	return netip.PrefixFrom(a, a.BitLen()), err
}
