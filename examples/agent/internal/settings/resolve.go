// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Layer has the settings of one source.
type Layer struct {
	// Source is the name of the source for people, as in "file /etc/wayleave/agent.yaml".
	Source string
	// Datastore means that keys that cannot be set in the datastore are problems.
	Datastore bool
	// Values has the values by key.
	Values map[string]string
	// Problems has the problems of reading the source.
	Problems []*Problem
}

// Problem is an invalid setting in one source.
type Problem struct {
	// Source is that of the Layer, and Key the key of the setting. Key is empty if the problem is one
	// of the whole source.
	Source, Key string
	// Err is the cause.
	Err error
}

// Error returns "source: key: cause". A source or key that is not printable is quoted.
func (p *Problem) Error() string {
	if p.Key == "" {
		return fmt.Sprintf("%s: %v", quoted(p.Source), p.Err)
	}
	return fmt.Sprintf("%s: %s: %v", quoted(p.Source), quoted(p.Key), p.Err)
}

// quoted returns a text as a Go string if a character of it is not printable: it must not begin a
// line of a log.
func quoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Effective has the merged settings, with the source of each.
type Effective struct {
	Settings
	// Values has the values in order of their keys.
	Values []Value
}

// Value is one setting.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Origin is the source that set the value.
	Origin string `json:"origin"`
}

const defaults = "default"

// Resolve applies the layers to the defaults, in order.
//
// Errors: a join of *Problem, of all sources.
func Resolve(layers ...Layer) (*Effective, error) {
	e, err := ResolvePartial(layers...)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ResolvePartial is like Resolve, but also returns the settings if there is an error. It leaves out
// invalid values.
func ResolvePartial(layers ...Layer) (*Effective, error) {
	e, problems := resolve(layers, func(string) bool { return true })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return e, errors.Join(errs...)
}

// ResolveKeys is like Resolve, but uses and checks only the settings of the given keys. For each
// key, only the last layer that sets it counts. A layer with a problem of the key, or of its whole
// source, may have set the key. Unless a later layer sets it, its value is unknown: an error.
//
// Errors: a join of *Problem, with the flags for the keys whose values are unknown.
func ResolveKeys(layers []Layer, keys ...string) (*Effective, error) {
	kept := make([]Layer, len(layers))
	for i, l := range layers {
		kept[i] = Layer{Source: l.Source, Datastore: l.Datastore, Values: map[string]string{}}
	}
	unknown := map[string]bool{}
	var errs []error
	for _, key := range keys {
		for i, l := range slices.Backward(layers) {
			if problems := l.problemsOf(key); len(problems) > 0 {
				unknown[key] = true
				errs = append(errs, problems...)
				break
			}
			if value, ok := l.Values[key]; ok {
				kept[i].Values[key] = value
				break
			}
		}
	}
	e, problems := resolve(kept, func(key string) bool { return slices.Contains(keys, key) })
	for _, p := range problems {
		unknown[p.Key] = true
		errs = append(errs, p)
	}
	if len(errs) == 0 {
		return e, nil
	}
	flags := "--" + strings.Join(slices.Sorted(maps.Keys(unknown)), ", --")
	return nil, fmt.Errorf("%w\nset these flags to the values of the running agent: %s",
		errors.Join(distinct(errs)...), flags)
}

// problemsOf returns the problems of a layer that leave the value of a key unknown.
func (l Layer) problemsOf(key string) (errs []error) {
	for _, p := range l.Problems {
		if p.Key == "" || p.Key == key {
			errs = append(errs, p)
		}
	}
	return errs
}

// distinct returns the errors without repetitions. A problem of a whole source occurs once per key.
func distinct(errs []error) (once []error) {
	for _, err := range errs {
		if !slices.Contains(once, err) {
			once = append(once, err)
		}
	}
	return once
}

// resolve applies the layers to the defaults, in order. It checks the values of the wanted keys.
func resolve(layers []Layer, wanted func(key string) bool) (e *Effective, found []*Problem) {
	e = &Effective{Settings: Defaults()}
	flags := flag.NewFlagSet("settings", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	Declare(flags, &e.Settings)
	origins := map[string]string{}
	locals := local()
	for _, l := range layers {
		found = append(found, l.Problems...)
		for _, key := range slices.Sorted(maps.Keys(l.Values)) {
			var err error
			switch {
			case flags.Lookup(key) == nil:
				err = errors.New("there is no such setting")
			case l.Datastore && locals[key]:
				err = errors.New("cannot be set in the datastore")
			default:
				err = set(flags, key, l.Values[key])
			}
			if err != nil {
				name := key
				if l.Source == environment && flags.Lookup(key) == nil {
					name = variable(key) // there is no such key
				}
				found = append(found, &Problem{Source: l.Source, Key: name, Err: err})
				continue
			}
			origins[key] = l.Source
		}
	}
	if origins[endpointToHost] == "" && e.ReadsKubernetes() {
		// Pods connect to the API server, DNS and other pods on the host network of their own node.
		_ = set(flags, endpointToHost, "accept")
	}
	origin := func(key string) string {
		if o, ok := origins[key]; ok {
			return o
		}
		return defaults
	}
	problems := e.problems()
	maps.DeleteFunc(problems, func(key string, _ error) bool { return !wanted(key) })
	for _, key := range slices.Sorted(maps.Keys(problems)) {
		found = append(found, &Problem{Source: origin(key), Key: key, Err: problems[key]})
	}
	flags.VisitAll(func(f *flag.Flag) { // in order
		e.Values = append(e.Values, Value{Key: f.Name, Value: f.Value.String(), Origin: origin(f.Name)})
	})
	return e, found
}

// set sets one flag. If the value has the wrong type, it leaves the flag as it is and returns an
// error.
func set(flags *flag.FlagSet, key, value string) error {
	old := flags.Lookup(key).Value.String()
	if err := flags.Set(key, value); err != nil {
		_ = flags.Set(key, old) // a failed Set of a number may set it to 0
		return fmt.Errorf("invalid value %q: %w", value, err)
	}
	return nil
}

// CommandLine returns the flags that were given on the command line, which Declare declared.
func CommandLine(flags *flag.FlagSet) Layer {
	known := flag.NewFlagSet("", flag.ContinueOnError)
	Declare(known, &Settings{})
	l := Layer{Source: "command line", Values: map[string]string{}}
	flags.Visit(func(f *flag.Flag) {
		if known.Lookup(f.Name) != nil {
			l.Values[f.Name] = f.Value.String()
		}
	})
	return l
}

// Pin keeps the values that cannot change while the agent runs: those of the keys that cannot be set
// in the datastore. It compares settings that were read again with those of the start. The returned
// layers have the values of the start, and must take precedence over all others.
//
// Errors: a join of *Problem, one for each value that is kept. The layers are valid nevertheless.
func Pin(start, now *Effective) (kept []Layer, err error) {
	var errs []error
	locals := local()
	for i, before := range start.Values { // both in order of the same keys
		after := now.Values[i]
		if !locals[before.Key] || before.Value == after.Value {
			continue
		}
		kept = append(kept, Layer{Source: before.Origin, Values: map[string]string{before.Key: before.Value}})
		errs = append(errs, &Problem{
			Source: after.Origin, Key: before.Key,
			Err: fmt.Errorf("%q takes effect at the next start; %q stays until then", after.Value, before.Value),
		})
	}
	return kept, errors.Join(errs...)
}
