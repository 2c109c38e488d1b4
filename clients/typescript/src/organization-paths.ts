import type { paths } from "./schema.js";

type Prefix = "/v0/orgs/{organization_id}";

type WithoutOrganization<Path> = keyof Omit<Path, "organization_id"> extends never
  ? { path?: never }
  : { path: Omit<Path, "organization_id"> };

type OfOrganization<Operation> = Operation extends { parameters: infer Parameters extends { path: unknown } }
  ? Omit<Operation, "parameters"> & {
      parameters: Omit<Parameters, "path"> & WithoutOrganization<Parameters["path"]>;
    }
  : Operation;

/** The paths of the API below an organization, whose id the client knows. */
export type OrganizationPaths = {
  [Path in keyof paths as Path extends `${Prefix}${infer Rest}` ? Rest : never]: {
    [Method in keyof paths[Path]]: OfOrganization<paths[Path][Method]>;
  };
};
