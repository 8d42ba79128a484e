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
	// Source is the name of the source, for display: "file /etc/wayleave/agent.yaml".
	Source string
	// Datastore is set if the source is a datastore. Some keys cannot be set in a datastore. If
	// Datastore is set and Values has such a key, Resolve reports the key as a problem.
	Datastore bool
	// Values has the values by key.
	Values map[string]string
	// Problems has the problems that were found when the source was read.
	Problems []*Problem
}

// Problem is an invalid setting in one source.
type Problem struct {
	// Source is Layer.Source. Key is the key of the setting; it is empty if the problem concerns
	// the whole source.
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

// quoted returns a text as a quoted Go string if one of its characters is not printable. Otherwise
// a line break in the text could forge a line in a log.
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

// Resolve applies the layers to the default settings, in order.
//
// Errors: a join of *Problem, with the problems of all sources.
func Resolve(layers ...Layer) (*Effective, error) {
	e, err := ResolvePartial(layers...)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ResolvePartial does the same as Resolve, but returns settings even if there is an error. It
// leaves out invalid values.
func ResolvePartial(layers ...Layer) (*Effective, error) {
	e, problems := resolve(layers, func(string) bool { return true })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return e, errors.Join(errs...)
}

// ResolveKeys does the same as Resolve, but uses and checks only the settings with the given keys.
// The value of a key comes from the last layer that sets the key. A layer may have an invalid value
// for the key, or the source of a layer may be unreadable. Then the value of the key is unknown,
// unless a later layer sets the key. An unknown value is an error.
//
// Errors: a join of *Problem. The text of the error also lists the flags by which the user can set
// the unknown values.
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

// problemsOf returns the problems of a layer that make the value of a key unknown.
func (l Layer) problemsOf(key string) (errs []error) {
	for _, p := range l.Problems {
		if p.Key == "" || p.Key == key {
			errs = append(errs, p)
		}
	}
	return errs
}

// distinct returns the errors without repetitions: a problem of a whole source occurs once for each
// key.
func distinct(errs []error) (once []error) {
	for _, err := range errs {
		if !slices.Contains(once, err) {
			once = append(once, err)
		}
	}
	return once
}

// resolve applies the layers to the default settings, in order. It checks the values of the wanted
// keys.
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
				err = errors.New("there is no such setting: give one of 'agent help run'")
			case l.Datastore && locals[key]:
				err = errors.New("cannot be set in the datastore: set it on the node itself")
			default:
				err = set(flags, key, l.Values[key])
			}
			if err != nil {
				name := key
				if l.Source == environment && flags.Lookup(key) == nil {
					name = variable(key) // the name that the user has written
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

// set sets one flag. If the value has the wrong type, it does not change the flag and returns an
// error.
func set(flags *flag.FlagSet, key, value string) error {
	old := flags.Lookup(key).Value.String()
	if err := flags.Set(key, value); err != nil {
		_ = flags.Set(key, old) // a failed Set of a number may set it to 0
		return fmt.Errorf("invalid value %q: %w", value, err)
	}
	return nil
}

// CommandLine returns the flags of Declare that were given on the command line.
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

// Pin keeps the values of settings that cannot change while the agent runs. These are the settings
// that cannot be set in the datastore. The first parameter has the settings with which the agent
// started. The second parameter has the settings that were just read. For each setting that cannot
// change but differs between the two, Pin returns a layer with the value from the start. The caller
// must give these layers precedence over all others.
//
// Errors: a join of *Problem, one for each value that is kept. The layers are valid even then.
func Pin(start, now *Effective) (kept []Layer, err error) {
	var errs []error
	locals := local()
	for i, before := range start.Values { // both lists have the same keys in the same order
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
