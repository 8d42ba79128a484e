// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
)

// Dialect is a version of the protocol. Messages changed between versions of Calico.
type Dialect int

const (
	// DialectTiers is the protocol of Calico 3.26 to 3.31: tier and name identify a policy, and up
	// to three messages describe a node. Released drivers expect it.
	DialectTiers Dialect = Dialect(translate.Tiers)
	// DialectKinds is the protocol of the newest versions: kind, namespace and name identify a
	// policy, and one message has all addresses of a node.
	DialectKinds Dialect = Dialect(translate.Kinds)
	// DialectKindsV4V6 is the protocol of the first versions after 3.31. Policies are identified as
	// with DialectKinds, but a node is sent as HostMetadataV4V6Update. The newest versions do not
	// use this message any more. In 2026, the development version of the driver of VPP expects this
	// dialect.
	DialectKindsV4V6 Dialect = Dialect(translate.KindsV4V6)
)

// String returns "tiers", "kinds" or "kinds-v4v6".
func (d Dialect) String() string {
	switch d {
	case DialectTiers:
		return "tiers"
	case DialectKinds:
		return "kinds"
	case DialectKindsV4V6:
		return "kinds-v4v6"
	}
	return fmt.Sprintf("dialect %d", int(d))
}

// Config configures a Dataplane. It is copied by New.
type Config struct {
	// Command is the driver and its arguments. A name without a slash is looked up in PATH.
	// Required.
	Command []string
	// Env is the environment of the driver, as in os.Environ. Nil means the environment of this
	// process.
	Env []string
	// Stdout and Stderr get the output of the driver. Nil discards.
	Stdout, Stderr io.Writer
	// Dialect is the version of the protocol that the driver was written for. Default DialectTiers.
	Dialect Dialect
	// Settings are configuration parameters of Felix by their names, such as
	// "DefaultEndpointToHostAction". Each driver that is started gets them in its first message.
	Settings map[string]string
	// WaitForStatus makes an endpoint pending until the driver has reported its status. If
	// Endpoint.Down is set, the endpoint is pending until the driver reports "down". Without
	// WaitForStatus, an endpoint counts as programmed once it is sent. Many drivers report nothing:
	// with WaitForStatus, their endpoints would be pending forever.
	WaitForStatus bool
	// MaxMessage is the maximum length of a message of the driver in bytes. Default 4 MiB.
	MaxMessage uint64
	// Timeout is the maximum time of each of two waits. The first is for the driver to read the
	// next 64 KiB of messages. The second is for the driver to report that it has removed an
	// endpoint. Default 30 s.
	Timeout time.Duration
	// Grace is how long the driver may run after Close or Teardown has closed the driver's input,
	// or after the driver has closed its output. Then the driver is killed. Default 5 s.
	//
	// If the driver itself closes its input, Apply detects this only when Apply sends the next
	// message. Apply then waits until the driver exits, at most 200 ms and at most Grace. After
	// that time, the driver is killed.
	Grace time.Duration
	// MaxBackoff is the longest wait before a driver that ended is started again. Default 5 s.
	MaxBackoff time.Duration
	// Logger logs starts and ends of the driver, and unknown messages. Nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Command, c.Env, c.Settings = slices.Clone(c.Command), slices.Clone(c.Env), maps.Clone(c.Settings)
	c.MaxMessage = cmp.Or(c.MaxMessage, 4<<20)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c *Config) validate() error {
	var errs []error
	if len(c.Command) == 0 || c.Command[0] == "" {
		errs = append(errs, errors.New("felix: Config.Command: required"))
	}
	if c.Dialect < DialectTiers || c.Dialect > DialectKindsV4V6 {
		errs = append(errs, fmt.Errorf("felix: Config.Dialect: unknown %s", c.Dialect))
	}
	if c.Timeout < 0 || c.Grace < 0 || c.MaxBackoff < 0 {
		errs = append(errs, errors.New("felix: Config.Timeout, Grace and MaxBackoff: must not be negative"))
	}
	return errors.Join(errs...)
}
