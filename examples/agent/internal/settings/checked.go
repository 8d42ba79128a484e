// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"flag"
	"log/slog"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// explain changes the flags so that their errors list the allowed values. The error of the flag
// package is only "parse error".
func explain(flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) {
		value, ok := f.Value.(flag.Getter)
		if !ok {
			return
		}
		if want := allowed(value.Get()); want != "" {
			f.Value = checked{value, want}
		}
	})
}

// allowed returns a text with the allowed values of a setting, by its type; "" if the error of the
// setting already lists them.
func allowed(value any) string {
	switch value.(type) {
	case bool:
		return "want true or false"
	case int:
		return "want a whole number"
	case time.Duration:
		return "want a time with its unit, as in 20ms, 30s or 1h"
	case *conntrack.Policy:
		return "want keep or end"
	case *slog.Level:
		return "want DEBUG, INFO, WARN or ERROR"
	}
	return ""
}

// checked is a flag whose errors list the allowed values.
type checked struct {
	flag.Getter
	want string
}

// Set sets the value.
func (c checked) Set(text string) error {
	if err := c.Getter.Set(text); err != nil {
		return errors.New(c.want)
	}
	return nil
}

// String returns the value. The flag package calls it for the zero checked, too.
func (c checked) String() string {
	if c.Getter == nil {
		return ""
	}
	return c.Getter.String()
}

// IsBoolFlag reports whether the flag is boolean, and so may be given without a value.
func (c checked) IsBoolFlag() bool {
	value, ok := c.Getter.(interface{ IsBoolFlag() bool })
	return ok && value.IsBoolFlag()
}
