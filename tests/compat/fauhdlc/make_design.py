"""Writes a VHDL design of many entities: registers, counters and a test bench."""
import sys

count = int(sys.argv[1])
for i in range(count):
    print(f"""
ENTITY counter{i} IS
  PORT (clock : IN bit; reset : IN bit; value : OUT integer);
END ENTITY counter{i};

ARCHITECTURE behaviour OF counter{i} IS
  TYPE state_t IS (idle, running, done);
  SIGNAL state : state_t;
BEGIN
  step : PROCESS (clock, reset)
    VARIABLE n : integer := {i};
  BEGIN
    IF reset = '1' THEN
      n := 0;
      state <= idle;
    ELSIF clock'event AND clock = '1' THEN
      CASE state IS
        WHEN idle => state <= running;
        WHEN running =>
          FOR k IN 0 TO {i % 5 + 1} LOOP
            n := n + k * {i % 7 + 2} - (k / 2);
          END LOOP;
          IF n > {100 + i} THEN state <= done; END IF;
        WHEN done => n := {i} MOD 13;
      END CASE;
    END IF;
    value <= n;
  END PROCESS step;
END ARCHITECTURE behaviour;""")
