"""Writes a VHDL design of many entities, each a counter with a state machine."""
import sys

count = int(sys.argv[1])
for i in range(count):
    print(f"""
ENTITY counter{i} IS
  PORT (clock : IN bit; value : OUT integer);
END ENTITY counter{i};

ARCHITECTURE behaviour OF counter{i} IS
  TYPE state_t IS (idle, running, done);
BEGIN
  -- One signal only: FAUhdlc writes the drivers of a process in the order of their addresses.
  step : PROCESS (clock)
    VARIABLE state : state_t := idle;
    VARIABLE n : integer := {i};
  BEGIN
    IF clock'event AND clock = '1' THEN
      CASE state IS
        WHEN idle => state := running;
        WHEN running =>
          FOR k IN 0 TO {i % 5 + 1} LOOP
            n := n + k * {i % 7 + 2} - (k / 2);
          END LOOP;
          IF n > {100 + i} THEN state := done; END IF;
        WHEN done => n := {i} MOD 13; state := idle;
      END CASE;
    END IF;
    value <= n;
  END PROCESS step;
END ARCHITECTURE behaviour;""")
