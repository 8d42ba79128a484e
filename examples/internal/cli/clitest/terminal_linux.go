// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal. A command writes its output to File, and a test reads this output
// from Written. Between the two is a buffer of some kilobytes. When it is full, the command waits
// until the test reads.
type Terminal struct {
	*os.File
	host *os.File
	// Written reads the output that was written to File.
	Written *bufio.Reader
}

// NewTerminal returns a terminal with the given width. Terminal.Text closes the terminal.
func NewTerminal(columns uint16) (*Terminal, error) {
	host, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	number, err := unix.IoctlGetInt(int(host.Fd()), unix.TIOCGPTN)
	err = errors.Join(err,
		unix.IoctlSetPointerInt(int(host.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(host.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 25}))
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	file, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	return &Terminal{File: file, host: host, Written: bufio.NewReader(host)}, nil
}

// Text closes the terminal, and returns the output that the test has not read yet.
func (t *Terminal) Text() (string, error) {
	err := t.Close()
	text, _ := io.ReadAll(t.Written) // the error means that no process has the terminal open any more
	return strings.ReplaceAll(string(text), "\r\n", "\n"), errors.Join(err, t.host.Close())
}
