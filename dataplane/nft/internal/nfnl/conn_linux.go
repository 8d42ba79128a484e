// SPDX-License-Identifier: Apache-2.0

package nfnl

// Dial opens a socket and returns a connection over it. Errors: those of the system calls.
func Dial(cfg Config) (*Conn, error) {
	sock, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return NewConn(sock), nil
}
