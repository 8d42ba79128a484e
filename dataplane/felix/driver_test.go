// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// waitTimeout is how long tests wait for another process.
const waitTimeout = 20 * time.Second

// The driver of these tests, written from the description of the protocol. It reads ToDataplane
// from file descriptor 3 and writes FromDataplane to 4. It checks each message, and ends with an
// error if one is out of order. Its kernel is the file "kernel" in its folder. It answers requests
// on a socket that has its PID as its name.

// driverEnv has the folder of the driver if this process is one.
const driverEnv = "FELIX_TEST_DRIVER"

// request is a request of a test to the driver. The driver responds once it has read Sent messages.
type request struct {
	Sent uint64
	// If Packet is set, the driver only judges it.
	Packet *dptest.Packet
	// Send are encoded FromDataplane messages that the driver writes.
	Send [][]byte
}

type response struct {
	Allowed bool
	Dump    string
	// Config are the settings, Messages the types of the messages so far.
	Config   map[string]string
	Messages []string
	Error    string
}

// testDriver is the driver.
type testDriver struct {
	folder string
	mu     sync.Mutex
	read   *sync.Cond // of mu: after each message
	state  felixState
	types  []string
	out    sync.Mutex
	sent   uint64
}

// runDriver is the main function of the driver. The file "mode" in the folder selects a fault, and
// "dialect" a version of the protocol.
func runDriver(folder string) error {
	in, out := os.NewFile(3, "in"), os.NewFile(4, "out")
	mode, _ := os.ReadFile(filepath.Join(folder, "mode"))
	dialect, _ := os.ReadFile(filepath.Join(folder, "dialect"))
	d := &testDriver{folder: folder, state: newFelixState(cmp.Or(string(dialect), "tiers"))}
	d.read = sync.NewCond(&d.mu)
	switch string(mode) {
	case "exit":
		return nil
	case "fail":
		return errors.New("mode fail")
	case "garbage":
		_, _ = out.Write([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
	case "long":
		_, _ = out.Write([]byte{0, 0, 0, 0, 0, 1, 0, 0})
	case "part":
		_, _ = out.Write([]byte{200, 0, 0, 0, 0, 0, 0, 0, 1})
		return nil
	case "leave": // another process has the pipe
		other := exec.Command("sleep", "600")
		other.ExtraFiles = []*os.File{out}
		if err := other.Start(); err != nil {
			return err
		}
		pid := strconv.Itoa(other.Process.Pid)
		return os.WriteFile(filepath.Join(folder, "other"), []byte(pid), 0o600)
	case "close output":
		_ = out.Close()
		select {}
	case "close input":
		_ = in.Close()
		time.Sleep(waitTimeout)
		return nil
	case "hang":
		select {}
	}
	listener, err := net.Listen("unix", socketOf(folder, os.Getpid()))
	if err != nil {
		return err
	}
	go d.serve(listener, out)
	var input io.Reader = bufio.NewReader(in)
	if string(mode) == "slow" {
		input = slowly{in}
	}
	for {
		m, err := readMessage(input)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := d.handle(m, out, string(mode) != "silent"); err != nil {
			return fmt.Errorf("message %d (%T): %w", m.SequenceNumber, m.Payload, err)
		}
	}
	if string(mode) == "endless" {
		select {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.program()
}

// slowly reads few bytes at a time.
type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	for range 10 {
		runtime.Gosched()
	}
	return s.Reader.Read(p[:min(len(p), 100)])
}

func socketOf(folder string, pid int) string { return filepath.Join(folder, strconv.Itoa(pid)) }

func readMessage(r io.Reader) (*felixpb.ToDataplane, error) {
	var length uint64
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, err
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("a part of a message: %w", err)
	}
	m := &felixpb.ToDataplane{}
	return m, proto.Unmarshal(data, m)
}

// handle applies a message, and reports the status of endpoints once the state is complete.
func (d *testDriver) handle(m *felixpb.ToDataplane, out io.Writer, status bool) error {
	d.mu.Lock()
	if want := uint64(len(d.types)); m.SequenceNumber != want {
		return fmt.Errorf("want sequence number %d", want)
	}
	err := d.state.apply(m)
	d.types = append(d.types, fmt.Sprintf("%T", m.Payload))
	var report []*felixpb.FromDataplane
	if err == nil && status {
		report = d.state.report(m)
	}
	d.read.Broadcast()
	d.mu.Unlock()
	for _, r := range report {
		err = errors.Join(err, d.write(out, r))
	}
	return err
}

func (d *testDriver) write(out io.Writer, m *felixpb.FromDataplane) error {
	d.out.Lock()
	defer d.out.Unlock()
	m.SequenceNumber = d.sent
	d.sent++
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = out.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(data))), data...))
	return err
}

// program writes the complete state to the kernel.
func (d *testDriver) program() error {
	if !d.state.inSync {
		return nil
	}
	state, err := d.state.back()
	if err != nil {
		return err
	}
	state.InSync = false
	return os.WriteFile(filepath.Join(d.folder, "kernel"), []byte(state.String()), 0o600)
}

// serve answers requests.
func (d *testDriver) serve(listener net.Listener, out io.Writer) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			var q request
			if json.NewDecoder(conn).Decode(&q) == nil {
				_ = json.NewEncoder(conn).Encode(d.respond(q, out))
			}
		}()
	}
}

func (d *testDriver) respond(q request, out io.Writer) (a response) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uint64(len(d.types)) < q.Sent {
		d.read.Wait()
	}
	var err error
	if q.Packet != nil {
		if a.Allowed, err = d.state.judge(*q.Packet); err != nil {
			a.Error = err.Error()
		}
		return a
	}
	for _, data := range q.Send {
		m := &felixpb.FromDataplane{}
		err = errors.Join(err, proto.Unmarshal(data, m), d.write(out, m))
	}
	if err = errors.Join(err, d.program()); err != nil {
		a.Error = err.Error()
	}
	dump, _ := os.ReadFile(filepath.Join(d.folder, "kernel"))
	a.Dump, a.Config, a.Messages = string(dump), d.state.config, d.types
	return a
}
