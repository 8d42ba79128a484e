// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
)

func main() {
	code, err := run(os.Args, os.Environ(), os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "agnhost: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// run runs the command, or becomes the real agnhost and does not return. It returns the exit code.
func run(args, environment []string, stderr io.Writer) (int, error) {
	executable, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the real agnhost: %w", err)
	}
	upstream := child{program: executable + ".real", args: args, environment: environment}
	command, rest := "", []string(nil)
	if len(args) > 1 {
		command, rest = args[1], args[2:]
	}
	switch command {
	case "connect":
		flags, isSCTP, err := parseConnect(rest)
		if isSCTP && err != nil {
			fmt.Fprintf(stderr, "Error: %v\n", err)
			return 1, nil
		}
		if isSCTP {
			return connect(flags, stderr), nil
		}
	case "porter":
		texts, remaining, others, err := splitPorter(environment)
		if err != nil {
			return 0, err
		}
		if len(texts) > 0 {
			handlers := map[uint16]handler{}
			for port, text := range texts {
				handlers[port] = porterHandler(text)
			}
			upstream.environment = remaining
			if !others {
				return serve(handlers, nil)
			}
			return serve(handlers, &upstream)
		}
	case "netexec":
		port, remaining, err := splitNetexec(rest)
		if err != nil {
			return 0, err
		}
		if port >= 0 {
			hostname, err := os.Hostname()
			if err != nil {
				return 0, err
			}
			upstream.args = append([]string{args[0], command}, remaining...)
			return serve(map[uint16]handler{uint16(port): netexecHandler(hostname, uint16(port))}, &upstream)
		}
	}
	return 0, become(upstream)
}

// become replaces this process by a program. It returns only if that fails.
func become(c child) error {
	return fmt.Errorf("run %s: %w", c.program, syscall.Exec(c.program, c.args, c.environment))
}

// serve answers SCTP until the child ends, or a signal ends it if there is none.
func serve(handlers map[uint16]handler, c *child) (int, error) {
	n := newNotices()
	defer n.stop()
	s, err := newServer(handlers)
	if err != nil {
		return 0, fmt.Errorf("SCTP: %w", err)
	}
	defer s.close()
	log.Printf("Started SCTP server")
	failed := make(chan error, 1)
	go func() { failed <- s.serve() }()
	return supervise(c, n, failed)
}
