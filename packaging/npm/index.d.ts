/** The path of the program `millrace` in this package. */
export const program: string;

export interface Millrace {
  /** Where the server answers, such as `http://127.0.0.1:43210`. */
  readonly endpoint: string;
  /** Variables with which SDKs and the AWS CLI use this server. */
  readonly environment: Readonly<Record<string, string>>;
  /** Moves the server's clock on: what is due by then has happened when this resolves. */
  advance(seconds: number): Promise<void>;
  /** Removes all queues with their messages. The clock stays where it is. */
  reset(): Promise<void>;
  /** Ends the server and removes what it kept. */
  stop(): Promise<void>;
}

export interface StartOptions {
  /**
   * Flags of `millrace serve`. They win over what a server for tests has: memory durability, a free
   * port of 127.0.0.1, no console, and the calls that move its clock and empty it.
   */
  arguments?: readonly string[];
}

/** Starts a server of its own, empty, and resolves once it answers. It ends with this process. */
export function startMillrace(options?: StartOptions): Promise<Millrace>;
