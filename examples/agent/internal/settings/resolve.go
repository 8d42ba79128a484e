// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Layer is what one source sets. It is a plain value.
type Layer struct {
	// Source for people, as in "file /etc/wayleave/agent.yaml".
	Source string
	// Datastore says that only what the datastore may set counts.
	Datastore bool
	// Values by key.
	Values map[string]string
	// Problems that were met reading the source.
	Problems []*Problem
}

// Problem is something that one source says and that makes no sense. It is plain data.
type Problem struct {
	// Source as in Layer, and Key that it is about; empty where it is about all of the source.
	Source, Key string
	// Err is the cause.
	Err error
}

// Error returns "source: key: cause".
func (p *Problem) Error() string {
	if p.Key == "" {
		return fmt.Sprintf("%s: %v", p.Source, p.Err)
	}
	return fmt.Sprintf("%s: %s: %v", p.Source, p.Key, p.Err)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Effective are settings with what they come from. It is plain data.
type Effective struct {
	Settings
	// Values in order of their keys.
	Values []Value
}

// Value is one setting. It is plain data.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Origin is the source that had the last word.
	Origin string `json:"origin"`
}

// String returns a line for each setting: key, value and origin.
func (e *Effective) String() string {
	var out strings.Builder
	for _, v := range e.Values {
		fmt.Fprintf(&out, "%-18s %-32q %s\n", v.Key, v.Value, v.Origin)
	}
	return out.String()
}

const defaults = "default"

// Resolve lays the sources over the defaults, the later over the earlier.
//
// Errors: a join of *Problem, of all sources.
func Resolve(layers ...Layer) (*Effective, error) {
	e := &Effective{Settings: Defaults()}
	flags := flag.NewFlagSet("settings", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	Declare(flags, &e.Settings)
	origins := map[string]string{}
	var errs []error
	locals := local()
	for _, l := range layers {
		for _, p := range l.Problems {
			errs = append(errs, p)
		}
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
				errs = append(errs, &Problem{Source: l.Source, Key: key, Err: err})
				continue
			}
			origins[key] = l.Source
		}
	}
	origin := func(key string) string {
		if o, ok := origins[key]; ok {
			return o
		}
		return defaults
	}
	problems := e.problems()
	for _, key := range slices.Sorted(maps.Keys(problems)) {
		errs = append(errs, &Problem{Source: origin(key), Key: key, Err: problems[key]})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	flags.VisitAll(func(f *flag.Flag) { // in order
		e.Values = append(e.Values, Value{Key: f.Name, Value: f.Value.String(), Origin: origin(f.Name)})
	})
	return e, nil
}

// set sets one flag. The flag package's own words for a value of the wrong type are not for people.
func set(flags *flag.FlagSet, key, value string) error {
	if err := flags.Set(key, value); err != nil {
		return fmt.Errorf("%q makes no sense: %w", value, err)
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

// Pin keeps what cannot change while the agent runs, which is what the datastore cannot set. It compares settings that were read again with
// those of the start, and returns layers that keep the values of the start where they come over all others.
//
// Errors: a join of *Problem, one for each value that is kept. The layers count nevertheless.
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
			Source: after.Origin, Key: before.Key, Err: fmt.Errorf("%q counts from the next start of the agent on, %q until then", after.Value, before.Value),
		})
	}
	return kept, errors.Join(errs...)
}
